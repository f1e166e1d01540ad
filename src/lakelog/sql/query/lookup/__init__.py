"""Lookup joins: FOR SYSTEM_TIME AS OF."""

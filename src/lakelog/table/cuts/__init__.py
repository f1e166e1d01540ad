"""Cuts: snapshots of several tables that belong to one moment (RFC 24)."""

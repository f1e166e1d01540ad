"""Procedures of the writers of a log and of stream readers."""

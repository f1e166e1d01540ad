"""Copies of tables: backups, restored tables, replicas (RFC 26)."""

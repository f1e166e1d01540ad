"""Rejected rows: their entries in the snapshots, their files, the rows to be judged, and expiry (RFC 16)."""

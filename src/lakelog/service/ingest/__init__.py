"""Copies tables of a PostgreSQL database and follows their changes: ``lakelog ingest``, ``Lake.ingest``."""

"""The executor side of a write: rows in, log records and staged runs out."""

"""One table in the hands of a user; no Spark needed."""

from __future__ import annotations

from lakelog.lake.table.table import Table

__all__ = ["Table", "pipe"]

pipe = Table.pipe

"""The way in: a warehouse, its tables, its SQL."""

from __future__ import annotations

from lakelog.lake.lake import Lake, connect
from lakelog.lake.table import Table

__all__ = ["Lake", "Table", "connect"]

"""Two writers of one table that take turns to seal (``table/commit/seal_turn.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import Table
from lakelog.table.write.table_writer import TableWriter
from log_tables import rows

KEYS = pytest.mark.parametrize("key", ["", ", primary key (id)"])


def two_at_work(table: Table) -> tuple[TableWriter, TableWriter]:
    """Two writers, each of which has committed and sees the other one's seal."""
    first, second = table.writer(), table.writer()
    for at, writer in enumerate((first, second)):
        writer.write(rows(at))
        writer.commit()
    return first, second


def hold(table: Table) -> Path:
    """The turn, held by a process that does nothing more."""
    path = Path(table.logical.path) / "lakelog" / "seal-turn"
    path.write_bytes(b"")
    return path

"""Limits and steps of lakelog that no option sets; a test that lies beyond one names it here, and no module.

``limit(monkeypatch, inline_bytes=0)`` for the rest of the test, or of the block of a ``monkeypatch.context()``.
"""

from __future__ import annotations

from typing import Final

import pytest

from lakelog.filestore.metadata import table_memory

_PLACES: Final = {
    "inline_bytes": "lakelog.table.staging.staged_rows.INLINE_BYTES",
    "union_rows": "lakelog.table.read.union_scan._FEW_ROWS",
    "native_rows": "lakelog.spark.native.native_scan._FEW_ROWS",
    "read_rows": "lakelog.table.log.scan._READ_ROWS",
    "pruned_files": "lakelog.spark.native.join_pruning._MANY_FILES",
    "counted_rows": "lakelog.table.write.overwrite._COUNTED_ROWS",
    "keyed_bytes": "lakelog.state.keyed_state._MOST_IN_MEMORY",
    "lookup_bytes": "lakelog.table.lookup.index._FRESH_BYTES",
}


def limit(monkeypatch: pytest.MonkeyPatch, **values: float) -> None:
    """Sets limits by the names above."""
    for name, value in values.items():
        monkeypatch.setattr(_PLACES[name], value)


def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of writers decide, and leave the seal to others."""
    monkeypatch.setattr("lakelog.table.commit.seal_thread.Sealer.seal_now", lambda *_, **__: None)


def forget_tables() -> None:
    """Lets this process know of tables what a new one knows."""
    table_memory._MEMORIES.clear()

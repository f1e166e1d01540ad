"""The position of a view in its sources: a snapshot of each. It is committed with the rows of the view."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.read.plan import skips_level_zero
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import fingerprint_of


@dataclass(frozen=True)
class SourcePosition(JsonRecord):
    """A snapshot of a source: the identity of its table, the id (0: none yet), and a name of the rows that it shows.

    ``mark`` is a name that no other snapshot has. It says whether rows that wait for a compaction are left out: a log
    that is added or removed changes that, and the view then computes all of its rows.
    """

    table: str
    snapshot: int
    mark: str = ""

    @staticmethod
    def of(table: DynamicTable, snapshot: Snapshot | None) -> SourcePosition:
        """The position at a snapshot, None before the first."""
        return SourcePosition(table.identity.text, 0 if snapshot is None else snapshot.id, _mark(table, snapshot))

    def find(self, table: DynamicTable) -> tuple[bool, Snapshot | None]:
        """Whether the snapshot still exists, and the snapshot (None for the state before the first)."""
        if not self.snapshot:
            return True, None
        with contextlib.suppress(NotFound):
            snapshot = table.store.snapshot(self.snapshot)
            return _mark(table, snapshot) == self.mark, snapshot
        return False, None


def _mark(table: DynamicTable, snapshot: Snapshot | None) -> str:
    """A name of the rows of a snapshot that views of the table read."""
    is_part = snapshot is not None and table.publishes and skips_level_zero(table.schema)
    return f"{fingerprint_of(snapshot)}{'-compacted' if is_part else ''}"


@dataclass(frozen=True)
class ViewPosition:
    """Source name → its position."""

    sources: Mapping[str, SourcePosition] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The position as an epoch of the view stores it."""
        return orjson.dumps({name: at.to_values() for name, at in self.sources.items()}).decode()

    @staticmethod
    def parse(text: str) -> ViewPosition | None:
        """The position that an epoch stores; None for "". Raises Corrupt."""
        if not text:
            return None
        try:
            values = orjson.loads(text)
            return ViewPosition({name: SourcePosition.from_values(at) for name, at in values.items()})
        except (orjson.JSONDecodeError, AttributeError, TypeError) as why:
            raise Corrupt(f"'{text[:200]}' is no position of a view: {why}") from None

"""The position of a view in its sources: a snapshot of each. It is committed with the rows of the view."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import fingerprint_of


@dataclass(frozen=True)
class SourcePosition(JsonRecord):
    """A snapshot of a source: the identity of its table, the id (0: none yet) and a name that no other snapshot has."""

    table: str
    snapshot: int
    mark: str = ""

    @staticmethod
    def of(table: DynamicTable, snapshot: Snapshot | None) -> SourcePosition:
        """The position at a snapshot, None before the first."""
        return SourcePosition(table.identity.text, 0 if snapshot is None else snapshot.id, fingerprint_of(snapshot))

    def find(self, table: DynamicTable) -> tuple[bool, Snapshot | None]:
        """Whether the snapshot still exists, and the snapshot (None for the state before the first)."""
        if not self.snapshot:
            return True, None
        with contextlib.suppress(NotFound):
            snapshot = table.store.snapshot(self.snapshot)
            return fingerprint_of(snapshot) == self.mark, snapshot
        return False, None


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

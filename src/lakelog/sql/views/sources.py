"""The sources of views that one process keeps fresh: their newest snapshots, and the changes between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.runtime.context import SessionContext
from lakelog.table.commit.seal import seal_staged
from lakelog.table.maintenance.state_changes import state_changes
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import fingerprint_of
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.union_scan import merged_on_read
from lakelog.table.views.position import SourcePosition

_KEPT_ROWS: Final = 20_000
"""Number of changed rows that are kept for the next view of their source."""


@dataclass(frozen=True)
class Source:
    """A source at the moment of a refresh: its table with all rows visible, and the newest snapshot."""

    table: DynamicTable
    newest: Snapshot | None

    @property
    def position(self) -> SourcePosition:
        return SourcePosition.of(self.table, self.newest)


@dataclass(frozen=True)
class _Changes:
    """The changes that were read last: between which snapshots, and the rows with these columns."""

    between: tuple[str, str, str]
    columns: frozenset[str]
    batches: tuple[pa.RecordBatch, ...]


class SourceReads:
    """Reads of sources that views share. Not for several threads.

    Views that are refreshed between two calls of ``forget`` see the same snapshots of a source. Views that start from
    the same snapshot, too, share the read of its changes.
    """

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._found: dict[Identifier, Source] = {}
        self._columns: dict[str, frozenset[str]] = {}
        self._kept: dict[str, _Changes] = {}

    def forget(self) -> None:
        """Makes the next calls read the newest snapshots again."""
        self._found = {}

    def newest(self, identifier: Identifier) -> Source:
        """A source with its newest rows in a snapshot. Raises NotFound."""
        source = self._found.get(identifier)
        if source is None:
            table = self._session.tables.open(identifier)
            epochs = waiting_epochs(table)
            newest = epochs.snapshot
            if epochs.waiting:
                seal_staged(table)
                newest = table.store.latest_snapshot()
            source = self._found[identifier] = Source(merged_on_read(table), newest)
        return source

    def changes(
        self, table: DynamicTable, before: Snapshot | None, after: Snapshot | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The changes between two snapshots, rows with ``columns`` and ``_row_kind``; also some that are equal in them.

        Raises as ``state_changes``.
        """
        between = (table.identity.text, fingerprint_of(before), fingerprint_of(after))
        kept = self._kept.get(table.name)
        if kept is not None and kept.between == between and kept.columns >= set(columns):
            for batch in kept.batches:
                yield batch.select([*columns, ROW_KIND_COLUMN])
            return
        known = self._columns.get(table.name, frozenset()) & set(table.schema.field_names)
        asked = self._columns[table.name] = known | set(columns)
        names = [name for name in table.schema.field_names if name in asked]
        batches, rows = list[pa.RecordBatch](), 0
        for _, batch in state_changes(table, before, after, columns=names):
            rows += batch.num_rows
            if rows <= _KEPT_ROWS:
                batches.append(batch)
            yield batch.select([*columns, ROW_KIND_COLUMN])
        self._kept.pop(table.name, None)
        if rows <= _KEPT_ROWS:
            self._kept[table.name] = _Changes(between, asked, tuple(batches))

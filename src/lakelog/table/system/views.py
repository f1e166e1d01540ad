"""The system table of materialized views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lakelog.io.clock import now_ms
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType
from lakelog.table.read.base import chosen
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataSplit, MetadataTable, local_time, needed
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.views.report import ViewReport
from lakelog.table.views.sources import source_states


@dataclass(frozen=True)
class _Rows(MetadataSplit):
    """The rows, which only the process that opened the view can find: it knows the sources."""

    rows: tuple[tuple[Any, ...], ...]


class ViewSources(MetadataTable):
    """One row per source of a materialized view: its position in the source, and how far it is behind.

    ``state`` is that of ``lakelog.table.views.sources.SourceState``. ``lag_ms`` is the age of the oldest commit that
    the view lacks, 0 if it has all, NULL if unknown. The last refresh and its ``error`` are those of the whole view.
    """

    COLUMNS: ClassVar[Columns] = (
        ("source", needed(TEXT)), ("state", needed(TEXT)), ("snapshot_id", LONG), ("newest_snapshot_id", LONG),
        ("commits_behind", LONG), ("lag_ms", LONG), ("refresh", needed(TEXT)),
        ("suspended", needed(AtomicType("BOOLEAN"))), ("computed_by", TEXT), ("last_refresh", TIME), ("error", TEXT),
    )  # fmt: skip

    @property
    def row_schema(self) -> TableSchema:
        """The fixed columns. Raises InvalidRequest for a table that is no view."""
        _ = self._definition
        return super().row_schema

    @property
    def _definition(self) -> ViewDefinition:
        return ViewDefinition.need(self.table.schema, str(self.table.location.identifier))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows. Raises InvalidRequest for a table that is no view, Unavailable."""
        definition = self._definition
        report, now = ViewReport.read(self.table.io, self.table.path) or ViewReport(), now_ms()
        rest = (
            definition.refreshes, definition.suspended, report.computed_by or None, local_time(report.refreshed_ms),
            report.error or None,
        )  # fmt: skip
        for one in source_states(self.table, definition):
            yield one.name, one.state, one.position, one.newest, one.behind, one.lag_ms(now), *rest

    def plan(self) -> list[MetadataSplit]:
        return [_Rows(self.table.name, tuple(self.rows()))]

    def read(self, split: MetadataSplit) -> Iterator[pa.RecordBatch]:
        rows = split.rows if isinstance(split, _Rows) else self.rows()
        yield from chosen(self.table_of(rows), self.schema, self.filter)

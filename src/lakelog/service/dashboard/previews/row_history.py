"""What happened to some rows: their changes in the log and in the snapshots, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest, LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.read.changes import AUTO, DIFF
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.clock import monotonic_s
from lakelog.lake.output.plain_rows import plain_rows
from lakelog.logstore.protocol.header import CORRECTION, DATA, decode_header
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.service.dashboard.previews.grid import COLUMNS, Grid, HistoryRequest, instant_text, shown_kind
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.changes_scan import ChangesScan

_COLUMNS: Final = ("time", "store", "change", "writer", "epoch", "place")
_PART_S: Final = 4.0
"""Seconds for each of the two stores; what is older is left out then."""

Line = list[Any]


@dataclass(frozen=True)
class RowHistory:
    """The changes of the rows that match a condition, such as ``id = 42``.

    A change of a table with a log is in both stores: its record, and the snapshot that its epoch became.
    """

    table: DynamicTable
    request: HistoryRequest

    @cached_property
    def _condition(self) -> Predicate:
        return parse_filter(self.request.where, self.table.schema)

    @property
    def _names(self) -> list[str]:
        return list(self.table.schema.field_names[: COLUMNS - len(_COLUMNS)])

    @property
    def _kinds(self) -> list[str]:
        kinds = ["time" if name == "time" else "number" if name == "epoch" else "" for name in _COLUMNS]
        return [*kinds, *(shown_kind(one) for one in arrow_schema(self.table.schema.fields[: len(self._names)]).types)]

    def read(self) -> Grid:
        """The grid. Raises the errors of a filter and of reading."""
        if not self.request.where.strip():
            raise InvalidRequest("the condition is empty: write one on the rows, such as id = 42")
        most = self.request.limit + 1
        lines: list[tuple[int, Line]] = []
        for part in (self._of_log(), self._of_snapshots()):
            end = monotonic_s() + _PART_S
            for taken, line in enumerate(part, 1):
                lines.append(line)
                if taken >= most or monotonic_s() > end:
                    break
        lines.sort(key=lambda pair: -pair[0])
        rows = [line for _, line in lines]
        columns = [*_COLUMNS, *self._names]
        return Grid(columns, rows[: self.request.limit], len(rows) > self.request.limit, len(columns), self._kinds)

    def _of_log(self) -> Iterator[tuple[int, Line]]:
        """Time and line of each change in the log, bucket by bucket, each from its end on."""
        if self.table.log is None:
            return
        scan = LogScan(self.table)
        for bucket, end in sorted(scan.reader.end_offsets().items()):
            first = scan.reader.first_offsets([bucket])[bucket]
            while end > first:
                begin = max(first, end - scan.most_records)
                chunk = scan.reader.read(bucket, begin, end, scan.most_records)
                for at in reversed(range(chunk.num_rows)):
                    yield from self._of_record(scan, bucket, chunk.slice(at, 1))
                end = begin

    def _of_record(self, scan: LogScan, bucket: int, record: pa.Table) -> Iterator[tuple[int, Line]]:
        offset, time_ms = (record.column(name)[0].as_py() for name in ("offset", "timestamp_ms"))
        header = decode_header(record.column("header")[0].as_py(), offset)
        if header.kind not in (DATA, CORRECTION) or record.column("value")[0].as_py() is None:
            return
        try:
            ((number, _, _),) = scan.schemas.runs(record.column("header"))
            rows = scan.decoded(record.column("value").combine_chunks(), number)
        except (LakelogError, ValueError, pa.ArrowException):
            return  # the Log page shows such a record as it is
        what = "log (correction)" if header.kind == CORRECTION else "log"
        for kind, values in self._matching(rows):
            place = f"offset {offset} of bucket {bucket}"
            yield time_ms, [instant_text(time_ms), what, kind, header.writer, header.epoch, place, *values]

    def _of_snapshots(self) -> Iterator[tuple[int, Line]]:
        """Time and line of each change that a snapshot has made, from the newest on."""
        store = self.table.store
        for snapshot in store.snapshots.backwards():
            if snapshot.commit_kind == COMPACT:  # it changes no row
                continue
            try:
                rows = self._changes(snapshot)
            except NotFound:  # what was before it has expired
                return
            when = instant_text(snapshot.time_millis)
            for kind, values in self._matching(rows):
                user, epoch = snapshot.commit_user, snapshot.commit_identifier
                yield snapshot.time_millis, [when, "files", kind, user, epoch, f"snapshot {snapshot.id}", *values]

    def _changes(self, snapshot: Snapshot) -> pa.Table:
        first, last, is_keyed = snapshot.id - 1, snapshot.id, self.table.schema.is_keyed
        scan = ChangesScan(
            self.table, filter=self._condition, first=first, last=last, mode=AUTO, keeps_deletes=is_keyed
        )
        try:
            return scan.to_arrow()
        except (InvalidRequest, UnsupportedFeature):
            if not is_keyed:
                raise
            return replace(scan, mode=DIFF).to_arrow()

    def _matching(self, rows: pa.Table) -> Iterator[tuple[str, Line]]:
        """Kind and values of the rows that match, the last one first."""
        schema = arrow_schema(self.table.schema.fields)
        kept = rows.filter(self._condition.to_arrow(schema)).slice(0, self.request.limit + 1)
        kinds = kept.column(ROW_KIND_COLUMN).to_pylist()
        yield from reversed(
            [(kind, list(values)) for kind, values in zip(kinds, plain_rows(kept.select(self._names)), strict=True)]
        )

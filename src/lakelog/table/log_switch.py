"""The exact switch from a snapshot to the log (``latest-full``): where it is, and a tail that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.errors import OffsetExpired
from lakelog.filestore.scan import Split
from lakelog.options.log import EXPIRED_OFFSETS
from lakelog.spec.row_kind import ROW_KIND_COLUMN
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_moment import check_held, look
from lakelog.table.log_position import LogPosition, Switch
from lakelog.table.log_scan import LogScan
from lakelog.table.scan import Scan
from lakelog.table.union_scan import merged_on_read


def latest_full(table: DynamicTable) -> LogPosition:
    """The position of a reader that begins with the newest snapshot whole and goes on in the log behind it.

    Raises OffsetExpired as ``check_held``.
    """
    moment = look(table)
    writers = moment.writers
    check_held(table, moment, (w.sealed_up_to for w in writers.values()))
    starts = moment.starts(w.sealed_up_to for w in writers.values())
    offsets = {**moment.ends, **starts}
    switch = Switch(moment.ends, {name: w.sealed for name, w in writers.items()}, moment.nobodys)
    return LogPosition(offsets, (0 if moment.snapshot is None else moment.snapshot.id, 0), switch)


@dataclass(frozen=True)
class FullPart:
    """The snapshot that a reader of the log begins with, in parts that are always the same; picklable."""

    table: DynamicTable
    columns: tuple[str, ...] | None = None

    @property
    def _scan(self) -> Scan:
        return Scan(merged_on_read(self.table), self.columns)

    def splits(self, snapshot_id: int) -> Sequence[Split]:
        """The parts of a snapshot, in order. Raises NotFound when it has expired."""
        return replace(self._scan, snapshot=snapshot_id).plan()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a part, each of kind +I; called on executors too."""
        field = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
        for batch in self._scan.read(split):
            yield batch.append_column(field, pa.array(["+I"] * batch.num_rows, pa.string()))


def follow(scan: LogScan, start: str | Mapping[int, int] | None, stop: str | None) -> Iterator[pa.RecordBatch]:
    """``LogScan.tail`` from any start, ``latest-full`` too, and with ``scan.expired-offsets``.

    The position is taken when the call is made. Raises as ``tail``, and NotFound when the snapshot expires while it is
    read.
    """
    mode = scan.start_mode(start)
    position = latest_full(scan.table) if mode == "latest-full" else LogPosition(scan.start_offsets(start))
    return _followed(scan, position, stop)


def _followed(scan: LogScan, position: LogPosition, stop: str | None) -> Iterator[pa.RecordBatch]:
    part = FullPart(scan.table, scan.columns)
    while True:
        for split in () if position.full is None else part.splits(position.full[0]):
            yield from part.read(split)
        try:
            yield from replace(scan, switch=position.switch).tail(position.offsets, stop)
            return
        except OffsetExpired:
            if scan.table.options.need(EXPIRED_OFFSETS) != "latest-full":
                raise
            position = latest_full(scan.table)

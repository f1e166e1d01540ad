"""The exact switch from a snapshot to the log (``latest-full``): its position, and the parts of the snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption
from lakelog.filestore.read.plan import Split
from lakelog.logstore.base import LARGEST_OFFSET
from lakelog.logstore.protocol.header import CORRECTION, DATA, of_kinds
from lakelog.options.log import READ_MODE, SCAN_DATA_FILES, STARTUP_MODE
from lakelog.options.scan import FILE_SCAN_OPTIONS
from lakelog.paimon.rows.row_kind import with_kind
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_generation import check_begun
from lakelog.table.model.published_links import PublishedLinks
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.log_view import capture, check_not_expired
from lakelog.table.read.union_scan import merged_on_read

_ROWS: Final = (DATA, CORRECTION)


def latest_full(table: DynamicTable) -> LogPosition:
    """The position of a reader that starts with the full newest snapshot and continues in the log after it.

    With ``log.content`` = changes it is the snapshot of the newest link. Raises OffsetExpired as ``check_not_expired``.
    """
    if table.publishes:
        link = PublishedLinks.of(table).last()
        scan = LogScan(table)
        ends = scan.reader.end_offsets()
        return LogPosition(scan.available_offsets({b: link.since.get(b, 0) for b in ends}), (link.base, 0))
    log_view = capture(table)
    writers = log_view.writers
    check_not_expired(table, log_view, (w.sealed_up_to for w in writers.values()))
    starts = log_view.starts(w.sealed_up_to for w in writers.values())
    if LogScan(table).is_transactional:  # the snapshot contains all epochs with a commit record below the end
        starts = log_view.starts([])
    offsets = {**log_view.ends, **starts}
    log_only = log_view.state.log_only if table.schema.is_keyed else {}
    ended = {  # writers that started and ended during the read
        name: state
        for name, state in log_view.state.writers.items()
        if any(o > log_view.ends.get(b, 0) for b, o in state.verified.items())
    }
    behind = {n: s.verified for n, s in ended.items()} | {n: w.sealed_up_to for n, w in writers.items()}
    sealed = {n: s.epoch for n, s in ended.items()} | {n: w.sealed for n, w in writers.items()}
    for name in log_view.state.missing:  # the snapshot has the rows of these writers, wherever they append them
        behind[name], sealed[name] = dict.fromkeys(log_view.ends, LARGEST_OFFSET), 0
    switch = SnapshotCutover(
        starts=behind,
        sealed=sealed,
        ends=log_view.ends,
        unowned=log_view.unowned,
        log_only=log_only,
        log_starts=log_view.firsts,
    )
    if table.schema.is_keyed and table.changelog_mode == "upsert":
        switch = _from_first_open(table, offsets, switch)
    return LogPosition(offsets, (0 if log_view.snapshot is None else log_view.snapshot.id, 0), switch)


def _from_first_open(table: DynamicTable, offsets: Mapping[int, int], switch: SnapshotCutover) -> SnapshotCutover:
    """The switch of an upsert log: it repeats all records from the first one that the snapshot does not contain.

    Only the order of the log relates such a record to later ones of its key, which the snapshot may contain. The last
    of them is correct, so none may be skipped. Repeated upserts do no harm.
    """
    scan, ends = LogScan(table), dict(switch.ends)
    if scan.is_transactional:
        return switch
    for bucket, end in switch.ends.items():
        for records in scan.records_between(bucket, offsets.get(bucket, end), end):
            kept = switch.kept(bucket, records)
            rows = of_kinds(kept, _ROWS)
            if rows.num_rows:
                ends[bucket] = rows.column("offset")[0].as_py()
                break
    starts = {name: {b: min(o, ends.get(b, o)) for b, o in start.items()} for name, start in switch.starts.items()}
    return replace(switch, ends=ends, starts=starts)


def check_log_hints(table: DynamicTable) -> None:
    """Raises InvalidOption if a read of the log has an option of its own that only a read of files can follow."""
    option = next((o for o in (*FILE_SCAN_OPTIONS, SCAN_DATA_FILES) if o.key in table.hints), None)
    if option is not None:
        raise InvalidOption(
            f"option '{option.key}' = '{table.hints[option.key]}' chooses files, and this is a read of the log of "
            f"{table.name}: set '{STARTUP_MODE.key}' instead, or read the files ('{READ_MODE.key}'='file')"
        )


def start_position(scan: LogScan, start: str | Mapping[int, int] | None = None) -> LogPosition:
    """The start of a new reader, from ``LogScan.start_offsets`` or a snapshot.

    Raises the errors of ``check_log_hints``, ``check_begun`` and ``latest_full``.
    """
    check_log_hints(scan.table)
    check_begun(scan.table)
    if scan.start_mode(start) == "latest-full":
        return latest_full(scan.table)
    offsets = scan.start_offsets(start)
    # of an epoch that was open at the first offset of the log, read only the remaining records
    of_held = scan.is_transactional and scan.start_mode(start) == "earliest"
    return LogPosition(offsets, switch=SnapshotCutover(starts={}, ends={}, floor=offsets) if of_held else None)


@dataclass(frozen=True)
class SnapshotPart:
    """The first snapshot of a reader of the log, in deterministic parts; picklable."""

    table: DynamicTable
    columns: tuple[str, ...] | None = None

    @property
    def _scan(self) -> Scan:
        return Scan(merged_on_read(self.table), self.columns)

    def splits(self, snapshot_id: int) -> Sequence[Split]:
        """The parts of a snapshot, in order. Raises NotFound if it has expired."""
        with self.table.store.snapshots.reading(snapshot_id, self.table.name):
            return replace(self._scan, snapshot=snapshot_id).plan()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a part, each of kind +I; called on executors too."""
        for batch in self._scan.read(split):
            yield with_kind(batch, "+I")

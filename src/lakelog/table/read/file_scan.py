"""Batch read of a table without Spark: the newest snapshot and the decided epochs after it, as Arrow."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.errors import CommitConflict, InvalidRequest, NotFound
from lakelog.filestore.read.plan import Split
from lakelog.io.metrics import METER
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.notebook import ShownText, ViewList
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.base import TableScan
from lakelog.table.runs.dynamic_buckets import assign_runs
from lakelog.table.runs.lone_retractions import place_retractions
from lakelog.table.runs.rebucketing import bucket_totals, in_buckets
from lakelog.table.runs.runs import adapt_to_schema, run_to_ipc
from lakelog.table.runs.sequencing import SequencedRuns, bucket_keys_of, sequence_runs

_ATTEMPTS = 4


@dataclass(frozen=True, repr=False)
class Scan(TableScan):
    """A batch read of the newest state, or of one snapshot.

    Without ``snapshot`` (an id, or the snapshot itself) it reads the newest snapshot and all epochs that are decided
    but not yet sealed (RFC 2). A row is therefore visible as soon as its micro-batch is done.
    """

    snapshot: int | Snapshot | None = None

    def _facts(self) -> Mapping[str, object]:
        snapshot = self.snapshot.id if isinstance(self.snapshot, Snapshot) else self.snapshot
        return {**super()._facts(), "snapshot": snapshot}

    def plan(self) -> ViewList[Split]:
        """The splits to read, pruned by partition, bucket, key range and statistics; picklable."""
        with METER.step("plan", table=self.table.name, filter=self._facts()["filter"]) as step:
            splits = self._chosen(self._steady_plan())
            snapshot = splits[0].snapshot_id if splits else None
            step.set(snapshot=snapshot, splits=len(splits), files=sum(len(split.files) for split in splits))
        return ViewList(splits)

    def _steady_plan(self) -> list[Split]:
        for _ in range(_ATTEMPTS - 1):
            # A concurrent seal deletes the runs that it has assigned to buckets.
            with contextlib.suppress(NotFound):
                return self._plan()
        return self._plan()

    def explain(self) -> str:
        """The files that the read takes, as text for a person: what the filter has not skipped, and what is merged."""
        splits, newest = self.plan(), self.table.store.latest_snapshot()
        files, rows = sum(len(s.files) for s in splits), sum(s.row_count for s in splits)
        merged, inline = sum(s.needs_merge for s in splits), sum(len(s.inline_runs) for s in splits)
        total = 0 if newest is None else len(list(self.table.store.live_entries(newest)))
        out = f"{self!r}\n  files: {files} of {total} of the newest snapshot, {rows:,} rows before filters and merges"
        out += f"\n  splits: {len(splits)}, of which {merged} merge sorted runs"
        return ShownText(out + (f"\n  decided epochs: {inline} runs of rows that are in no file yet" if inline else ""))

    def _chosen(self, splits: list[Split]) -> list[Split]:
        """The splits, limited to the data files in ``scan.data-files`` if set. Raises CommitConflict."""
        text = self.table.options.get_typed(SCAN_DATA_FILES)
        if text is None:
            return splits
        if self.table.schema.is_keyed:
            raise InvalidRequest(
                f"'{SCAN_DATA_FILES.key}' does not apply to table {self.table.name}, whose files must be merged"
            )
        names = {name for name in text.split(",") if name}
        missing = names - {f.file_name for split in splits for f in split.files}
        if missing and self.filter is None:  # with a filter, they may have no matching rows
            raise CommitConflict(f"data file '{min(missing)}' is not (or no longer) part of table {self.table.name}")
        kept = (replace(s, files=tuple(f for f in s.files if f.file_name in names), inline_runs=()) for s in splits)
        return [split for split in kept if split.files]

    def _plan(self) -> list[Split]:
        store = self.table.store
        if self.snapshot is not None:
            return list(store.plan(snapshot_id=self.snapshot, filter=self.filter))
        epochs = waiting_epochs(self.table)
        if not epochs.waiting:
            return (
                [] if epochs.snapshot is None else list(store.plan(snapshot_id=epochs.snapshot.id, filter=self.filter))
            )
        return self._with_epochs(epochs.waiting, epochs.snapshot)

    def _with_epochs(
        self, records: Sequence[EpochRecord], snapshot: Snapshot | None, newer_rows_follow: bool = False
    ) -> list[Split]:
        """The splits of a snapshot with the rows of epochs on top, in their order."""
        store = self.table.store
        totals = bucket_totals(self.table, records, snapshot)
        records = place_retractions(adapt_to_schema(in_buckets(records, self.table, totals), store), self.table)
        highest = store.max_sequence_numbers(snapshot, bucket_keys_of(records))
        waiting = sequence_runs(records, highest)
        if self.table.schema.has_dynamic_buckets:
            waiting = assign_runs(self.table, waiting, snapshot)
        extra = {
            bucket_key: [_extra_run(rows) for rows in self._all_inline(bucket_key, runs)]
            for bucket_key, runs in waiting.items()
        }
        return list(
            store.plan(
                snapshot_id=0 if snapshot is None else snapshot.id,
                filter=self.filter,
                extra_runs=extra,
                totals=totals,
                newer_rows_follow=newer_rows_follow,
            )
        )

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split; called on executors too."""
        yield from self.table.store.read_split(split, columns=self.columns, filter=self.filter)

    def to_arrow(self) -> pa.Table:
        if self.max_rows is not None or self.residual is not None:
            return self.to_reader().read_all()
        splits = self.plan()
        with ThreadPoolExecutor(max(1, min(len(splits), os.cpu_count() or 1)), "splits") as threads:
            parts = threads.map(lambda split: list(self.read(split)), splits)
            return pa.Table.from_batches(itertools.chain.from_iterable(parts), self.schema)

    def count(self) -> int:
        if self.max_rows is not None or self.residual is not None or self.filter is not None:
            return super().count()
        splits, narrow = self.plan(), self._narrow
        unknown = (split for split in splits if split.exact_rows is None)
        rows: int = sum(batch.num_rows for split in unknown for batch in narrow.read(split))
        return rows + sum(split.exact_rows or 0 for split in splits)

    def _all_inline(self, bucket_key: tuple[bytes, int], runs: SequencedRuns) -> list[pa.Table]:
        store = self.table.store
        rows = [held.rows for held in runs.inline]
        for file, shift in runs.files:
            rows.append(store.file_rows(bucket_key[0], bucket_key[1], file, ORDER_COLUMN, KIND_COLUMN, shift))
        return rows


def _extra_run(rows: pa.Table) -> bytes:
    names = {ORDER_COLUMN: "_SEQUENCE_NUMBER", KIND_COLUMN: "_VALUE_KIND"}
    return run_to_ipc(rows.rename_columns([names.get(n, n) for n in rows.column_names]))

"""Assigns sequence numbers to the rows of decided epochs, in epoch order and inside an epoch in log order.

Used by the seal and by batch reads of unsealed epochs, so that both see the same newest row of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.table.model.attempt import ORDER_COLUMN, StagedRun
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.runs import run_from_ipc

BucketKey = tuple[bytes, int]
"""(serialised partition row, bucket)."""


@dataclass(frozen=True)
class InlineRows:
    """Rows whose order is the final sequence number, with a flag for rows of a changelog."""

    rows: pa.Table
    emits_changelog: bool = True

    @property
    def first(self) -> int:
        """The smallest sequence number."""
        return int(pc.min(self.rows.column(ORDER_COLUMN)).as_py())


@dataclass(frozen=True)
class ShiftedRun:
    """The files of a large run, and the shift of their sequence numbers."""

    run: StagedRun
    shift: int

    @property
    def first(self) -> int:
        """The smallest sequence number, shifted."""
        return min(f.min_sequence_number for f in self.run.whole_files) + self.shift


@dataclass
class SequencedRuns:
    """Rows of one bucket: inline rows, and rows in files."""

    inline: list[InlineRows] = field(default_factory=list)
    staged: list[ShiftedRun] = field(default_factory=list)

    @property
    def files(self) -> list[tuple[DataFileMeta, int]]:
        """The data files, each with its shift."""
        return [(file, run.shift) for run in self.staged for file in run.run.files]

    def in_order(self) -> list[InlineRows | ShiftedRun]:
        """All rows by sequence number; inline rows are split where rows of a file fall between them.

        Called where rows are emitted in sequence, because the changes of a key must keep their order.
        """
        cuts = sorted(run.first for run in self.staged)
        parts = [piece for rows in self.inline for piece in _cut(rows, cuts)]
        return sorted([*parts, *self.staged], key=lambda part: part.first)


def _cut(held: InlineRows, cuts: Sequence[int]) -> list[InlineRows]:
    if not cuts:
        return [held]
    parts = np.searchsorted(cuts, held.rows.column(ORDER_COLUMN).to_numpy(), side="right")
    parts_found = [held.rows.take(pa.array(np.flatnonzero(parts == part))) for part in np.unique(parts)]
    return [InlineRows(rows, held.emits_changelog) for rows in parts_found]


def bucket_keys_of(records: Iterable[EpochRecord]) -> set[BucketKey]:
    """The (partition, bucket) pairs that the records touch."""
    return {(run.partition, run.bucket) for r in records for a in r.attempts for run in a.runs}


def sequence_runs(records: Iterable[EpochRecord], highest: Mapping[BucketKey, int]) -> dict[BucketKey, SequencedRuns]:
    """Sequences the runs of epochs in the input order.

    ``highest`` is the largest sequence number per bucket in the snapshot below; every row gets a larger one. Rows of
    one epoch keep the order of the log, for any task; a later epoch is above an earlier one.
    """
    out: dict[BucketKey, SequencedRuns] = {}
    running = dict(highest)
    for record in records:
        by_bucket: dict[BucketKey, list[StagedRun]] = {}
        for attempt in record.attempts:
            for run in attempt.runs:
                by_bucket.setdefault((run.partition, run.bucket), []).append(run)
        for bucket_key, runs in by_bucket.items():
            running[bucket_key] = _sequence_epoch(
                runs, running.get(bucket_key, -1), out.setdefault(bucket_key, SequencedRuns())
            )
    return out


def _sequence_epoch(runs: list[StagedRun], below: int, out: SequencedRuns) -> int:
    inline = [run_from_ipc(run.inline) for run in runs if run.inline]
    with_files = [run for run in runs if run.files]
    rows = pa.concat_tables(inline) if inline else None
    emits = all(run.emits_changelog for run in runs)
    if not with_files:
        if rows is None:
            return below
        out.inline.append(InlineRows(_ranked(rows, below + 1), emits))
        count: int = rows.num_rows
        return below + count
    delta = max(run.delta for run in with_files)
    lowest_order = min(f.min_sequence_number - run.delta for run in with_files for f in run.whole_files)
    if rows is not None:
        orders = rows.column(ORDER_COLUMN).to_numpy()
        lowest_order = min([lowest_order, *orders[orders >= 0].tolist()])
        if (orders < 0).any():  # lone retractions (``late_retractions``) precede all other rows of the epoch
            lowest_order -= 1
            rows = _with_order(rows, pa.array(np.where(orders < 0, lowest_order, orders)))
    delta = max(delta, below + 1 - lowest_order)
    highest = below
    for run in with_files:
        out.staged.append(ShiftedRun(run, delta - run.delta))
        highest = max(highest, *(f.max_sequence_number + delta - run.delta for f in run.whole_files))
    if rows is not None:
        shifted = _with_order(rows, pc.add(rows.column(ORDER_COLUMN), pa.scalar(delta, pa.int64())))
        out.inline.append(InlineRows(shifted, emits))
        highest = max(highest, pc.max(shifted.column(ORDER_COLUMN)).as_py())
    return highest


def _ranked(rows: pa.Table, first: int) -> pa.Table:
    order = np.argsort(rows.column(ORDER_COLUMN).to_numpy(), kind="stable")
    return _with_order(rows.take(pa.array(order)), pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64)))


def _with_order(rows: pa.Table, numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
    index = rows.schema.get_field_index(ORDER_COLUMN)
    return rows.set_column(index, pa.field(ORDER_COLUMN, pa.int64(), nullable=False), numbers)

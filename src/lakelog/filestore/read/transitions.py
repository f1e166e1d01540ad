"""The changes of a bucket between two states, with the old row of each changed key (RFC 14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakelog.filestore.read.changes import DiffSplit, with_kind_names
from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.read.key_set import KeySet
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.snapshot_diff import AFTER, BEFORE, numbered, state_run
from lakelog.filestore.read.split_reader import SplitReader, engine_of
from lakelog.filestore.skipping.predicate import In, Predicate, conjunction
from lakelog.merge.base import SEQUENCE_COLUMN, MergeEngine, Piece
from lakelog.merge.changes import change_rows
from lakelog.merge.runs import merge_runs
from lakelog.paimon.metadata.data_file import DataFileMeta

_MOST_KEYS: Final = 1_000_000
"""Maximum number of keys that are looked up in a bucket; for more, all rows of the state are read."""
_FEW_KEYS: Final = 1_000
"""Number of keys up to which a condition on them skips parts of files."""


@dataclass
class Written:
    """Files that have every key whose row may differ, in the order of their commits.

    ``are_added``: they are rows that writes have added, each with a higher sequence number than the rows of earlier
    commits. A compaction that drops the newest rows of a bucket makes its next writer use their numbers again.
    """

    files: list[DataFileMeta] = field(default_factory=list)
    are_added: bool = True

    def add(self, files: Sequence[DataFileMeta], are_added: bool) -> None:
        """Adds the files of the next commit."""
        newest = max((file.max_sequence_number for file in self.files), default=-1)
        self.are_added &= are_added and all(file.min_sequence_number > newest for file in files)
        self.files += files


def read_transitions(
    files: DataFileReader, split: DiffSplit, columns: Sequence[str], written: Written | None
) -> Iterator[pa.RecordBatch]:
    """The changes of a bucket, rows with ``columns`` and ``_row_kind``; a -U is directly before its +U.

    A row is changed if one of ``columns``, which include the key, is. Without ``written`` any key may have changed.
    Where added rows replace the older ones of their keys, they are the later state of these keys: it is not read.
    """
    keys = files.paths.schema.trimmed_primary_keys
    key_set, condition = (None, None) if written is None else _keys_of(files, split, written.files)
    reader, only_new = SplitReader(files, True, key_set), written is not None and _replaces(files, split, written)
    before = state_run(reader, split.before, columns, condition, BEFORE)
    if only_new:
        assert written is not None
        total = (*split.before, *split.after)[0].total_buckets
        new = Split(split.partition, split.bucket, total, tuple(written.files), needs_merge=True)
        after = numbered(SplitReader(files, True).read(new, columns), AFTER, keeps_deletes=True)
    else:
        after = state_run(reader, split.after, columns, condition, AFTER)
    for batch in merge_runs([before, after], keys, Transition(columns, only_new)):
        if batch.num_rows:
            yield with_kind_names(batch, columns)


def _keys_of(
    files: DataFileReader, split: DiffSplit, written: Sequence[DataFileMeta]
) -> tuple[KeySet | None, Predicate | None]:
    """The keys of files, None if they are too many; and a condition on few of them, which skips parts of files."""
    keys = files.paths.schema.trimmed_primary_keys
    if sum(file.row_count for file in written) > _MOST_KEYS:
        return None, None
    batches = [b for file in written for b in files.read(split.partition, split.bucket, file, keys)]
    key_set = KeySet.of(batches, keys)
    # -0.0 is a key of its own, but equals 0.0 in a condition
    if (
        key_set is None
        or len(key_set) > _FEW_KEYS
        or any(pa.types.is_floating(kind) for kind in batches[0].schema.types)
    ):
        return key_set, None
    rows = pa.Table.from_batches(batches)
    return key_set, conjunction(In(name, tuple(rows.column(name).unique().to_pylist())) for name in keys)


def _replaces(files: DataFileReader, split: DiffSplit, written: Written) -> bool:
    """Whether each row of the files replaces the older ones of its key as a whole."""
    engine = engine_of(files.paths.schema)
    if not (written.are_added and engine.number_decides) or engine.ignore_delete:
        return False
    newest = max((f.max_sequence_number for s in split.before for f in s.files), default=-1)
    named = {vector.data_file for s in split.after for vector in s.vectors}
    return all(f.min_sequence_number > newest and f.file_name not in named for f in written.files)


class Transition(MergeEngine):
    """Turns the old and the new row of each key into its changes: +I, -D, or -U and +U; ``columns`` are compared.

    With ``only_new``, a key without a row of the later state has not changed.
    """

    sequence_fields: tuple[str, ...] = ()

    def __init__(self, columns: Sequence[str], only_new: bool = False) -> None:
        self.ignore_delete = False
        self.columns, self.only_new = tuple(columns), only_new

    def fold(self, piece: Piece) -> pa.Table:
        sides = piece.numbers(SEQUENCE_COLUMN)
        has_before, has_after = sides[piece.starts] == BEFORE, sides[piece.newest] == AFTER
        starts, newest = piece.starts, piece.newest
        if self.only_new:
            starts, newest, has_before = starts[has_after], newest[has_after], has_before[has_after]
            has_after = has_after[has_after]
        before, after = piece.rows_at(starts[has_before]), piece.rows_at(newest[has_after])
        return change_rows(before, after, has_before, has_after, self.columns).combine_chunks()

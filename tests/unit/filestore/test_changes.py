"""What changed: the order of changes, the comparison of two states, what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.filestore.metadata.levels import KeyRange
from lakelog.filestore.read.changes import in_reading_order
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.snapshot_diff import ALL_BUCKETS, Difference, chains, plan_diff, rescaled_partitions
from lakelog.merge.runs import merge_runs
from lakelog.paimon.metadata.data_file import EMPTY_ROW, DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.types.types import AtomicType

INT = AtomicType("INT", False)


def file(name: str, low: int = 0, high: int = 0) -> DataFileMeta:
    return DataFileMeta(name, 1, 1, encode_row([low], [INT]), encode_row([high], [INT]))


def split(*files: DataFileMeta, merged: bool = False, total: int = 1) -> Split:
    return Split(EMPTY_ROW, 0, total, files, merged)


def test_changes_of_buckets_come_in_the_order_of_the_format_s_own_reader() -> None:
    entries = [ManifestEntry(ADD, EMPTY_ROW, bucket, 4, file(f"f{bucket}")) for bucket in (0, 0, 1, 2, 3)]
    assert [e.bucket for e in in_reading_order(entries)] == [1, 2, 3, 0, 0]


def test_files_that_follow_each_other_are_read_one_after_the_other() -> None:
    keys = KeyRange((INT,))
    parts = [split(file("c", 7, 9), file("a", 1, 3)), split(file("b", 4, 6), file("x", 5, 8), merged=True)]
    chained = [[[f.file_name for f in part.files] for part in chain] for chain in chains(parts, keys)]
    assert chained == [[["a"], ["b", "x"]], [["c"]]]


def test_a_bucket_with_the_same_files_is_not_compared() -> None:
    same, other = split(file("a")), split(file("b"))
    assert plan_diff([same], [same], 2) == []
    (found,) = plan_diff([same], [same, other], 2)
    assert (found.before, found.after) == ((same,), (same, other))


def test_the_buckets_of_a_rescaled_partition_are_compared_as_one() -> None:
    before, after = [split(file("a"), total=2)], [split(file("b"), total=4)]
    (whole,) = plan_diff(before, after, 2, rescaled_partitions(before, after))
    assert (whole.bucket, list(whole.before), list(whole.after)) == (ALL_BUCKETS, before, after)


@pytest.mark.parametrize("keeps_deletes", [False, True])
def test_two_states_give_the_added_changed_and_removed_rows(keeps_deletes: bool) -> None:
    def side(number: int, rows: dict[int, str]) -> list[pa.RecordBatch]:
        numbers = pa.array(np.full(len(rows), number, dtype=np.int64))
        kinds = pa.array(np.zeros(len(rows), dtype=np.int8))
        columns = [pa.array(list(rows)), pa.array(list(rows.values())), numbers, kinds]
        return [pa.RecordBatch.from_arrays(columns, names=["k", "v", "_SEQUENCE_NUMBER", "_VALUE_KIND"])]

    before, after = {1: "same", 2: "old", 3: "gone"}, {1: "same", 2: "new", 4: "added"}
    runs = [side(0, before), side(1, after)]
    found = pa.Table.from_batches(merge_runs(runs, ["k"], Difference(["k", "v"], keeps_deletes)))
    rows = list(zip(found["k"].to_pylist(), found["v"].to_pylist(), found["_VALUE_KIND"].to_pylist(), strict=True))
    gone = [(3, "gone", 3)] if keeps_deletes else []
    assert rows == [(2, "new", 0), *gone, (4, "added", 0)]

"""The file store as a whole: what is written and committed is read, newest row per key."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lakelog.errors import InvalidSchema, NotFound, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.skipping.predicate import Compare, In, IsNull
from lakelog.paimon.metadata.data_file import BucketFiles

I, UB, U, D = 0, 1, 2, 3  # noqa: E741 - row kinds


def test_older_snapshots_stay_readable(make_table) -> None:
    table = make_table()
    first = table.insert((I, 1, "a", 1.0))
    table.insert((D, 1, "a", 1.0))
    assert table.ids(snapshot_id=first.id) == [1]
    assert table.ids() == []
    assert table.ids(snapshot_id=0) == []
    with pytest.raises(NotFound, match="no snapshot 9; it has snapshots 1 to 2"):
        table.ids(snapshot_id=9)


def test_an_append_table_keeps_every_row(make_table) -> None:
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0), (I, 1, "a", 1.0))
    table.insert((U, 1, "a", 1.0))
    assert table.ids() == [1, 1, 1]
    files = [f for split in table.store.plan() for f in split.files]
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files] == [(0, 1), (2, 2)]


def test_an_append_table_refuses_deletes_unless_it_ignores_them(make_table) -> None:
    with pytest.raises(InvalidSchema, match="primary key"):
        make_table(primary_keys=()).insert((D, 1, "a", 1.0))
    table = make_table(primary_keys=(), ignore_delete="true")
    table.insert((D, 1, "a", 1.0), (I, 2, "b", 1.0))
    assert table.ids() == [2]


def test_partitions_and_buckets_have_their_own_directories(make_table) -> None:
    columns = (("day", "STRING"), ("id", "INT"), ("name", "STRING"))
    table = make_table(("day", "id"), ("day",), columns, bucket="2")
    table.insert(*((I, day, i, f"{day}{i}") for day in ("mon", "tue") for i in range(8)))
    splits = table.store.plan()
    assert len(splits) == 4
    directories = {table.store.paths.bucket_dir(s.partition, s.bucket) for s in splits}
    assert directories == {f"/t/day={day}/bucket-{b}" for day in ("mon", "tue") for b in (0, 1)}
    assert len(table.store.plan(filter=Compare("day", "=", "mon"))) == 2
    assert len(table.store.plan(filter=Compare("id", "=", 3))) == 2
    assert len(table.store.plan(filter=In("day", ("mon", "wed")), buckets=[1])) == 1
    assert len(table.store.plan(partitions=[splits[0].partition])) == 2
    assert table.read(filter=Compare("name", "=", "tue5")) == [{"day": "tue", "id": 5, "name": "tue5"}]


def test_a_filter_may_use_columns_that_are_not_asked_for(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, None, 2.0))
    assert table.read(["amount"], IsNull("name")) == [{"amount": 2.0}]
    assert table.store.read_table(table.store.plan(), ["amount", "id"]).column_names == ["amount", "id"]


def test_no_columns_still_count_rows(make_table) -> None:
    for table in (make_table(), make_table(primary_keys=())):
        table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
        table.insert((I, 3, "c", 3.0))
        batches = [b for split in table.store.plan() for b in table.store.read_split(split, [])]
        assert sum(b.num_rows for b in batches) == 3


def test_an_unknown_column_is_named(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    with pytest.raises(InvalidSchema, match="'nam', did you mean 'name'"):
        list(table.store.read_split(table.store.plan()[0], ["nam"]))


def test_runs_that_do_not_overlap_need_no_merge(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.insert((I, 3, "c", 3.0))
    assert [s.needs_merge for s in table.store.plan()] == [False]
    table.insert((D, 3, "c", 3.0))
    assert [(s.needs_merge, len(s.files)) for s in table.store.plan()] == [(False, 1), (True, 2)]


def test_files_are_skipped_by_key_range_and_by_value_statistics(make_table) -> None:
    table = make_table()
    for start in (0, 100, 200):
        table.insert(*((I, start + i, f"n{start + i:03d}", float(start + i)) for i in range(10)))

    def files(filter) -> int:  # type: ignore[no-untyped-def]
        return sum(len(s.files) for s in table.store.plan(filter=filter))

    assert files(None) == 3
    assert files(Compare("id", ">", 150)) == 1
    assert files(Compare("amount", "=", 105.0)) == 1
    assert files(Compare("name", "<", "n005")) == 1
    assert files(In("id", (5, 205))) == 2
    assert table.ids(Compare("amount", "=", 105.0)) == [105]


def test_the_store_and_its_splits_travel_between_processes(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    store, splits = pickle.loads(pickle.dumps((table.store, table.store.plan())))
    assert store.read_table(splits).to_pylist() == [{"id": 1, "name": "a", "amount": 1.0}]


def test_the_rows_of_a_file_come_with_shifted_numbers_and_kinds(make_table) -> None:
    table = make_table()
    files = table.staged((I, 1, "a", 1.0), (D, 2, "b", 2.0))[0]
    rows = table.store.file_rows(files.partition, 0, files.new_files[0], "_order", "_kind", 100)
    assert rows.column_names == ["id", "name", "amount", "_order", "_kind"]
    assert rows.column("_order").to_pylist() == [100, 101]
    assert rows.column("_kind").to_pylist() == [0, 3]
    appended = make_table(primary_keys=())
    files = appended.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))[0]
    rows = appended.store.file_rows(files.partition, 0, files.new_files[0], shift=5)
    assert rows.column("_SEQUENCE_NUMBER").to_pylist() == [5, 6]


def test_a_shifted_copy_has_the_same_rows_and_higher_numbers(make_table) -> None:
    table = make_table()
    files = table.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))[0]
    (old,) = files.new_files
    new = table.store.shift_sequences(files.partition, 0, old, 7)
    assert (new.min_sequence_number, new.max_sequence_number) == (7, 8)
    assert new.file_name != old.file_name
    assert (new.row_count, new.min_key, new.max_key, new.value_stats) == (
        old.row_count, old.min_key, old.max_key, old.value_stats,
    )  # fmt: skip


def test_rows_without_a_column_or_of_another_type_are_refused(make_table) -> None:
    writer = make_table().store.bucket_writer(b"\x00" * 12, 0)
    with pytest.raises(InvalidSchema, match="no column 'amount'"):
        writer.write(pa.table({"id": [1], "name": ["a"]}))
    with pytest.raises(InvalidSchema, match="do not fit"):
        writer.write(pa.table({"id": ["x"], "name": ["a"], "amount": [1.0]}))


def test_a_table_with_an_unknown_feature_is_not_written(make_table) -> None:
    store = make_table(row_tracking_enabled="true").store
    with pytest.raises(UnsupportedFeature, match="row-tracking.enabled"):
        store.bucket_writer(b"\x00" * 12, 0)
    with pytest.raises(UnsupportedFeature, match="row-tracking.enabled"):
        store.commit(CommitRequest("u", 1, "APPEND", allow_empty=True))


def test_files_whose_numbers_overlap_are_merged_by_number_and_not_by_place(make_table) -> None:
    table = make_table()
    held = []
    for number, name in ((10, "newer"), (2, "older")):
        writer = table.store.bucket_writer(b"\x00" * 12, 0)
        given, kinds = table.rows((0, 1, name, 0.5), (0, 2 + number, name, 0.5))
        writer.write(given, kinds, pa.array([number, 20 - number], pa.int64()))
        held += writer.finish()
    assert [(f.min_sequence_number, f.max_sequence_number) for f in held] == [(10, 10), (2, 18)]
    files = BucketFiles(b"\x00" * 12, 0, 1, new_files=tuple(held))
    table.store.commit(CommitRequest("u", 1, "APPEND", (files,)))
    assert [row["name"] for row in table.read(["name", "id"])] == ["newer", "older", "newer"]

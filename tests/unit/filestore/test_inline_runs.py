"""Rows that are in no snapshot yet are read together with the files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.skipping.predicate import Compare
from lakelog.paimon.metadata.data_file import BucketFiles

I, U, D = 0, 2, 3  # noqa: E741 - row kinds
PLACE = (b"\x00" * 12, 0)


def ipc(table: Any, *rows: tuple[Any, ...], first: int = 1000) -> bytes:
    values, kinds = table.rows(*rows)
    numbers = pa.array(range(first, first + values.num_rows), pa.int64())
    values = values.append_column("_SEQUENCE_NUMBER", numbers).append_column("_VALUE_KIND", kinds)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, values.schema) as writer:
        writer.write_table(values)
    return bytes(sink.getvalue())


def test_inline_rows_are_newer_than_all_files(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0), (I, 3, "c", 3.0))
    run = ipc(table, (U, 3, "C", 9.0), (I, 7, "new", 0.0), (D, 1, "a", 1.0), (U, 7, "newer", 0.0))
    assert [(r["id"], r["name"]) for r in table.read(extra_runs={PLACE: [run]})] == [(2, "b"), (3, "C"), (7, "newer")]


def test_later_inline_runs_are_newer_than_earlier_ones(make_table) -> None:
    table = make_table()
    runs = [ipc(table, (I, 1, "a", 1.0), first=5), ipc(table, (U, 1, "b", 2.0), first=6)]
    assert table.read(["name"], extra_runs={PLACE: runs}) == [{"name": "b"}]
    assert table.read(["name"], extra_runs={PLACE: runs[::-1]}) == [{"name": "b"}]


def test_a_bucket_without_files_gets_a_split(make_table) -> None:
    for table in (make_table(), make_table(primary_keys=())):
        (split,) = table.store.plan(extra_runs={PLACE: [ipc(table, (I, 1, "a", 1.0))]})
        assert (split.files, split.snapshot_id) == ((), None)
        assert table.store.read_table([split], ["id"]).to_pylist() == [{"id": 1}]


def test_inline_rows_of_an_append_table_are_appended(make_table) -> None:
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0))
    run = ipc(table, (I, 1, "a", 1.0), (I, 2, "b", 2.0))
    assert table.ids(extra_runs={PLACE: [run]}) == [1, 1, 2]
    assert table.ids(Compare("id", ">", 1), extra_runs={PLACE: [run]}) == [2]


def test_a_filter_sees_the_inline_row_and_not_the_one_it_replaces(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    run = {PLACE: [ipc(table, (U, 1, "z", 50.0))]}
    assert table.ids(Compare("amount", "<", 10.0), extra_runs=run) == [2]
    assert table.ids(Compare("amount", ">", 10.0), extra_runs=run) == [1]
    assert table.ids(Compare("id", "=", 1), extra_runs=run) == [1]


def test_inline_rows_are_cut_at_the_key_ranges_of_the_splits(make_table) -> None:
    table = make_table(target_file_size="128 mb")
    files = []
    for start in (0, 100, 200):
        made = table.staged(*((I, start + i, "f", 0.0) for i in range(10)))[0].new_files[0]
        # as large as if each had to be a split of its own
        files.append(made.__class__(**{**vars(made), "file_size": 200 << 20, "level": 5}))
    table.store.commit(CommitRequest("u", 1, "COMPACT", (BucketFiles(*PLACE, 1, tuple(files)),)))
    new = [(U, at, "new", 0.0) for at in (205, -5, 50)]
    run = ipc(table, *new, (D, 3, "f", 0.0), (I, 500, "n", 0.0))
    splits = table.store.plan(extra_runs={PLACE: [run]})
    assert [(s.needs_merge, len(s.files)) for s in splits] == [(True, 1), (True, 1), (True, 1)]
    names = {r["id"]: r["name"] for r in table.store.read_table(splits).to_pylist()}
    assert (names[-5], names[50], names[205], names[500]) == ("new", "new", "new", "n")
    assert 3 not in names
    assert len(names) == 32
    untouched = table.store.plan(extra_runs={PLACE: [ipc(table, (U, 205, "new", 0.0))]})
    assert [s.needs_merge for s in untouched] == [False, False, True]


def test_inline_rows_of_unwanted_partitions_are_left_out(make_table) -> None:
    columns = (("day", "STRING"), ("id", "INT"), ("name", "STRING"))
    table = make_table(("day", "id"), ("day",), columns)
    table.insert((I, "mon", 1, "a"), (I, "tue", 1, "b"))
    monday = next(s.partition for s in table.store.plan(filter=Compare("day", "=", "mon")))
    run = {(monday, 0): [ipc(table, (I, "mon", 2, "x"))]}
    assert len(table.read(extra_runs=run)) == 3
    splits = table.store.plan(filter=Compare("day", "=", "tue"), extra_runs=run)
    assert [s.inline_runs for s in splits] == [()]

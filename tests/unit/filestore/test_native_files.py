"""Only files that every Parquet reader reads like lakelog are taken out of a plan."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakelog.filestore.read.native_files import Layouts, NativePlan, is_native_type, pick_native
from lakelog.filestore.store import FileStore
from lakelog.paimon.types.types import parse_type
from unit.filestore.test_deletion_vectors import delete_rows, files_of
from unit.filestore.test_inline_runs import PLACE, ipc

I, U, D = 0, 2, 3  # noqa: E741 - row kinds


def picked(store: FileStore, *columns: str, **plan: Any) -> NativePlan:
    return pick_native(store.plan(**plan), columns or store.schema.field_names, store.schemas, store.paths)


def layout(store: FileStore, **changes: Any) -> tuple[str | None, ...] | None:
    """Where the first file, with some of its meta changed, has the table's columns."""
    file = replace(files_of(store)[0], **changes)
    return Layouts(store.schema.field_names, store.schemas, store.paths).sources(file)


def test_files_of_one_run_are_read_whole(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    plan = picked(table.store, "amount", "id")
    ((sources, (file,)),) = plan.files.items()
    assert (sources, file.is_whole, plan.rest, plan.file_count) == (("amount", "id"), True, (), 1)
    assert file.path == table.store.paths.data_file(*PLACE, file.meta)


def test_overlapping_files_are_taken_with_their_split_and_rows_in_no_file_are_left(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.insert((U, 1, "A", 1.0))
    plan = picked(table.store, extra_runs={PLACE: [ipc(table, (I, 7, "new", 0.0))]})
    (files,) = plan.files.values()
    assert [len(f.merged.files) for f in files if f.merged is not None] == [2, 2]
    assert [(s.files, s.needs_merge, len(s.inline_runs)) for s in plan.rest] == [((), False, 1)]


@pytest.mark.parametrize("options", [{"sequence_field": "amount"}, {"merge_engine": "partial-update"}], ids=str)
def test_overlapping_files_of_other_engines_stay(make_table, options) -> None:
    table = make_table(**options)
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    assert picked(table.store).file_count == 1
    table.insert((U, 1, "A", 1.0))
    plan = picked(table.store)
    assert (plan.files, plan.rest) == ({}, tuple(table.store.plan()))


def test_overlapping_files_with_too_many_rows_for_the_driver_stay(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.insert((U, 1, "A", 1.0))
    (split,) = table.store.plan()
    some, many = (
        [replace(split, bucket=at, files=tuple(replace(f, row_count=rows) for f in split.files)) for at in range(9)]
        for rows in (3 << 20, 4 << 20)
    )
    more = replace(split, files=tuple(replace(f, row_count=9 << 20) for f in split.files))
    pick = partial(pick_native, columns=["id"], schemas=table.store.schemas, paths=table.store.paths)
    assert (pick(some).file_count, pick(many).file_count, pick([more, split]).file_count) == (18, 0, 2)


def test_a_file_with_a_deletion_vector_brings_it(make_table) -> None:
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.insert((I, 3, "a", 1.0))
    (first, _) = files_of(table.store)
    delete_rows(table.store, {first.file_name: [1]})
    (files,) = picked(table.store).files.values()
    assert [(f.meta.file_name == first.file_name, f.vector is None) for f in files] == [(True, False), (False, True)]


def test_files_of_another_format_or_with_some_columns_stay(make_table) -> None:
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0))
    assert layout(table.store) == ("id", "name", "amount")
    assert layout(table.store, file_name="data-1.orc") is None
    assert layout(table.store, write_cols=("id",)) is None


@pytest.mark.parametrize(("prefix", "native"), [("x1-", True), ("_x-", False), (".x-", False), ("a b", False)])
def test_files_whose_names_a_reader_skips_or_escapes_stay(make_table, prefix, native) -> None:
    table = make_table(**{"data-file.prefix": prefix})
    table.insert((I, 1, "a", 1.0))
    assert files_of(table.store)[0].file_name.startswith(prefix)
    assert picked(table.store).file_count == (1 if native else 0)


def test_a_file_that_may_lack_the_partition_columns_stays(make_table) -> None:
    table = make_table(primary_keys=(), partition_keys=("name",))
    table.insert((I, 1, "a", 1.0), (I, 2, "a", 2.0))
    assert layout(table.store) == ("id", "name", "amount")
    taken_over = {"min_sequence_number": 0, "max_sequence_number": 0}
    assert layout(table.store, **taken_over) is None
    assert picked(table.store, "id").file_count == 1


@pytest.mark.parametrize("name", ["_metadata", "_key_id"])
def test_files_with_names_that_a_reader_takes_for_others_stay(make_table, name) -> None:
    columns = (("id", "INT NOT NULL"), ("amount", "DOUBLE"), (name, "STRING"))
    table = make_table(columns=columns)
    table.insert((I, 1, 1.0, "a"))
    assert picked(table.store, "id", "amount").file_count == 0


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        ("INT", True),
        ("DOUBLE", True),
        ("DECIMAL(38, 4)", True),
        ("TIMESTAMP(6)", True),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", True),
        ("TIMESTAMP(9)", False),
        ("TIME(3)", False),
        ({"type": "ARRAY", "element": "TIME(3)"}, False),
        ({"type": "ARRAY", "element": "DOUBLE"}, True),
        ({"type": "MAP", "key": "STRING", "value": "TIMESTAMP(9)"}, False),
        ({"type": "MULTISET", "element": "INT"}, True),
        ({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}, True),
        ({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "DOUBLE"}]}, False),
    ],
    ids=str,
)
def test_types_that_readers_agree_on(kind, native) -> None:
    assert is_native_type(parse_type(kind)) is native

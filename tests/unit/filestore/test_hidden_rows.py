"""The rows of overlapping files that are left without those that are hidden are the rows of a merge."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.superseded_rows import KeyedRows, hidden_in_split, merges_by_position, superseded_masks
from lakelog.filestore.store import FileStore
from unit.filestore.test_deletion_vectors import delete_rows, files_of, with_options
from unit.filestore.test_inline_runs import PLACE, ipc

I, U, B, D = 0, 2, 1, 3  # noqa: E741 - row kinds
TEXT_KEY = (("day", "STRING"), ("id", "INT"), ("name", "STRING"))
NUMBER_KEY = (("id", "DOUBLE"), ("name", "STRING"))


def left(store: FileStore, splits: list[Split]) -> list[dict[str, Any]]:
    """The rows of splits as a reader has them that knows hidden rows and no merge."""
    rows: list[dict[str, Any]] = []
    for split in splits:
        masks = hidden_in_split(store.files, split) if split.needs_merge else {}
        for file in split.files:
            found = store.file_rows(split.partition, split.bucket, file).select(store.schema.field_names).to_pylist()
            mask = masks.get(file.file_name, np.zeros(len(found), dtype=np.bool_))
            assert len(mask) == len(found)
            rows += [row for row, gone in zip(found, mask, strict=True) if not gone]
        if split.inline_runs:
            alone = replace(split, files=(), vectors=(), needs_merge=False)
            rows += store.read_table([alone]).to_pylist()
    return sorted(rows, key=str)


def merged(store: FileStore, splits: list[Split]) -> list[dict[str, Any]]:
    return sorted(store.read_table(splits).to_pylist(), key=str)


def keyed(*keys: int, deletes: tuple[int, ...] = (), numbers: list[int] | None = None) -> KeyedRows:
    mask = np.isin(np.arange(len(keys)), deletes) if deletes else None
    return KeyedRows([np.array(keys)], mask, None, None if numbers is None else np.array(numbers))


def test_the_newest_row_of_a_key_counts_unless_it_is_a_delete() -> None:
    files = [keyed(1, 2, 3, 5), keyed(2, 3, 4, deletes=(1,)), keyed(3)]
    assert [m.tolist() for m in superseded_masks(files[:2])] == [[False, True, True, False], [False, True, False]]
    assert [m.tolist() for m in superseded_masks(files)] == [[False, True, True, False], [False, True, False], [False]]


def test_a_delete_that_is_ignored_hides_nothing_but_itself() -> None:
    old, new = superseded_masks([keyed(1, 2), keyed(1, deletes=(0,))], ignore_delete=True)
    assert (old.tolist(), new.tolist()) == ([False, False], [True])


def test_numbers_decide_where_they_are_given_and_the_later_of_equal_ones_wins() -> None:
    old, new = superseded_masks([keyed(1, 2, 3, numbers=[9, 1, 4]), keyed(1, 2, 3, numbers=[2, 5, 4])])
    assert (old.tolist(), new.tolist()) == ([False, True, True], [True, False, False])


@pytest.mark.parametrize(
    ("keys", "columns"),
    [(("id",), None), (("day", "id"), TEXT_KEY), (("id",), NUMBER_KEY)],
    ids=["int", "text", "float"],
)
@pytest.mark.parametrize("seed", range(2))
def test_rows_that_are_left_are_those_of_a_merge(make_table, keys, columns, seed) -> None:
    chance = random.Random(seed)
    table = make_table(keys, **({} if columns is None else {"columns": columns}), num_sorted_run_compaction_trigger="4")
    names = table.store.schema.field_names

    def row() -> tuple[Any, ...]:
        number = chance.randrange(60)
        values = {"day": chance.choice("ab"), "id": number, "name": str(chance.random()), "amount": chance.random()}
        if columns is NUMBER_KEY:
            values["id"] = chance.choice([0.0, -0.0, float("nan"), float(number)])
        return (chance.choice((I, I, I, U, B, D)), *(values[name] for name in names))

    for at in range(9):
        table.insert(*(row() for _ in range(chance.randrange(1, 50))))
        if at in (3, 6):
            table.store.compact(*PLACE, full=at == 3)
        splits = table.store.plan()
        assert str(left(table.store, splits)) == str(merged(table.store, splits))  # NaN is like NaN in text


def test_rows_that_are_in_no_file_yet_hide_rows_of_files(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0), (I, 3, "c", 3.0))
    table.insert((I, 4, "d", 1.0), (D, 2, "b", 2.0))
    run = ipc(table, (U, 3, "C", 9.0), (I, 7, "new", 0.0), (D, 4, "d", 1.0))
    splits = table.store.plan(extra_runs={PLACE: [run]})
    assert left(table.store, splits) == merged(table.store, splits)
    assert [row["id"] for row in left(table.store, splits)] == [1, 3, 7]


def test_a_row_in_a_deletion_vector_takes_no_part(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.insert((U, 1, "A", 1.0), (U, 2, "B", 2.0))
    store = with_options(table.store, **{"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"})
    newer = files_of(table.store)[1].file_name
    delete_rows(table.store, {newer: [0]})
    splits = store.plan()
    assert [s.needs_merge for s in splits] == [True]
    assert [row["name"] for row in left(store, splits)] == ["a", "B"]
    assert left(store, splits) == merged(store, splits)


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ({}, True),
        ({"ignore_delete": "true"}, True),
        ({"sequence_field": "amount"}, False),
        ({"merge_engine": "partial-update"}, False),
        ({"merge_engine": "aggregation"}, False),
    ],
    ids=str,
)
def test_only_engines_that_choose_rows_by_number_hide_them(make_table, options, hides) -> None:
    table = make_table(**options)
    assert merges_by_position(table.store.schema) is hides
    if hides:
        table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
        table.insert((D, 1, "a", 1.0), (U, 2, "B", 2.0))
        assert left(table.store, table.store.plan()) == merged(table.store, table.store.plan())

"""Which rows find which: against a plain loop, with NULL, repeated keys, several matches and types that differ."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lakelog.merge.keys import key_at, key_parts, sort_rows
from lakelog.state.sorted_run import ranks, run_in_memory, spread
from lakelog.table.lookup.source import find_matches, merged, missing

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False)])


def finder(held: dict[int, list[str]]):
    def find(parts):
        keys = parts[0].tolist()
        assert keys == sorted(set(keys))
        pairs = [(place, value) for place, key in enumerate(keys) for value in held.get(key, [])]
        places = np.array([place for place, _ in pairs], dtype=np.int64)
        return places, pa.table({"v": pa.array([value for _, value in pairs], pa.string())})

    return find


EMPTY = pa.table({"v": pa.array([], pa.string())})


def test_each_row_finds_what_a_loop_finds() -> None:
    dice = random.Random(5)
    held = {key: [f"{key}-{n}" for n in range(dice.randrange(4))] for key in range(0, 40, 2)}
    for _ in range(50):
        keys = [dice.choice([None, dice.randrange(45)]) for _ in range(dice.randrange(30))]
        wanted = np.array(sorted(dice.sample(range(len(keys)), dice.randrange(len(keys) + 1))), dtype=np.int64)
        batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.int32())], ["probe"])
        found = find_matches(batch, SCHEMA, wanted, finder(held), EMPTY)
        values = found.rows.column("v").to_pylist()
        got = [(left, values[right]) for left, right in zip(found.left.tolist(), found.right.tolist(), strict=True)]
        assert got == [(row, v) for row in wanted.tolist() if keys[row] is not None for v in held.get(keys[row], [])]
        alone = [row for row in wanted.tolist() if not held.get(keys[row])]
        assert missing(found, wanted, batch).tolist() == [row for row in alone if keys[row] is not None]
        whole = found.with_missing(wanted)
        assert sorted(set(whole.left.tolist())) == wanted.tolist()
        assert whole.left.tolist() == sorted(whole.left.tolist())
        nulls = [
            left for left, v in zip(whole.left.tolist(), whole.right_rows()["v"].to_pylist(), strict=True) if v is None
        ]
        assert nulls == alone


def test_lookups_of_different_rows_are_one() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3, 4], pa.int32())], ["k"])
    parts = [
        find_matches(batch, SCHEMA, np.array(rows), finder({key: [f"{key}"] for key in (1, 2, 4)}), EMPTY)
        for rows in ([1, 3], [0, 2])
    ]
    whole = merged(parts)
    assert whole.left.tolist() == [0, 1, 3]
    assert whole.right_rows()["v"].to_pylist() == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("given", "kind", "want"),
    [
        (pa.array([1, 1 + (1 << 32)], pa.int64()), pa.int32(), ["a", None]),
        (pa.array([1_000, 1_001], pa.timestamp("us")), pa.timestamp("ms"), ["a", None]),
        (pa.array(["1", "x"], pa.large_string()), pa.string(), ["b", None]),
    ],
)
def test_only_the_same_value_of_another_type_is_found(given, kind, want) -> None:
    def find(parts):
        held = [key_at(parts, row)[0] for row in range(len(parts[0]))]
        places = [at for at, key in enumerate(held) if key in (1, b"1")]
        return np.array(places), pa.table({"v": ["b" if held[at] == b"1" else "a" for at in places]})

    batch = pa.RecordBatch.from_arrays([given], ["k"])
    every = np.arange(len(given))
    found = find_matches(batch, pa.schema([("k", kind)]), every, find, EMPTY)
    assert found.with_missing(every).right_rows()["v"].to_pylist() == want


@pytest.mark.parametrize("texts", [False, True])
def test_runs_give_all_rows_with_the_first_columns_of_a_key(texts, monkeypatch) -> None:
    monkeypatch.setattr("lakelog.state.sorted_run.BLOCK_ROWS", 3)
    dice = random.Random(8)
    for _ in range(40):
        rows = sorted({(dice.randrange(6), dice.randrange(9)) for _ in range(dice.randrange(1, 30))})
        first = pa.array([f"{a}" for a, _ in rows]) if texts else pa.array([a for a, _ in rows])
        batch = pa.RecordBatch.from_arrays([first, pa.array([b for _, b in rows])], ["a", "b"])
        run = run_in_memory(("a", "b"), [batch])
        keys = sorted(dice.sample(range(-1, 8), dice.randrange(1, 9)))
        asked = pa.RecordBatch.from_arrays([pa.array([f"{k}" for k in keys] if texts else keys)], ["a"])
        asked = asked.take(pa.array(sort_rows(key_parts(asked, ["a"]))))
        places, found = run.find_all(key_parts(asked, ["a"]))
        names = asked.column(0).to_pylist()
        got = [(names[p], b) for p, b in zip(places, (b for x in found for b in x["b"].to_pylist()), strict=True)]
        kinds = [(f"{a}" if texts else a, b) for a, b in rows]
        assert sorted(got) == [(a, b) for a, b in sorted(kinds) if a in names]


def test_ranks_and_ranges() -> None:
    numbers = [np.array([1, 3, 3, 7])]
    assert ranks([np.array([0, 3, 7, 9])], numbers, before=True).tolist() == [0, 1, 3, 4]
    assert ranks([np.array([0, 3, 7, 9])], numbers, before=False).tolist() == [0, 3, 4, 4]
    texts = [pa.array([b"a", b"c", b"c", b"x"])]
    assert ranks([pa.array([b"", b"c", b"x", b"z"])], texts, before=True).tolist() == [0, 1, 3, 4]
    assert ranks([pa.array([b"", b"c", b"x", b"z"])], texts, before=False).tolist() == [0, 3, 4, 4]
    assert spread(np.array([4, 0, 9]), np.array([6, 0, 10])).tolist() == [4, 5, 9]

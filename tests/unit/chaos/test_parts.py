"""The parts of the chaos run that its verdict rests on: an input that repeats itself, and a count that sees a row."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest

from chaos.kills import VICTIMS, plan_kills
from chaos.net import Net, counted, difference
from chaos.rows import Input

KEYS = 100


@pytest.mark.parametrize("kind", ["changes", "upserts", "append"])
@pytest.mark.parametrize("total", [0, 5, KEYS, KEYS + 1, 7 * KEYS - 1, 12 * KEYS + 34])
def test_the_rows_lead_to_the_table_however_they_are_cut(kind: str, total: int) -> None:
    rows = Input(kind, KEYS, seed=3)
    state: dict[int, dict] = {}
    count = 0
    for first in range(0, total, 77):
        for row in rows.rows(first, min(total, first + 77)).to_pylist():
            count += 1
            change = row.pop("_row_kind", "+I")
            if change in ("-U", "-D"):
                assert state.pop(row["id"]) == row, "a before-image is the row that was there"
                continue
            assert (row["id"] in state) <= (kind == "upserts")
            state[row["id"]] = row
    assert sorted(rows.table_after(total).to_dicts(), key=lambda row: row["id"]) == sorted(
        state.values(), key=lambda row: row["id"]
    )
    assert rows.row_count(total) == count


def test_a_change_stream_inserts_updates_and_deletes() -> None:
    kinds = Input("changes", KEYS, seed=3).rows(0, 20 * KEYS).column("_row_kind").to_pylist()
    assert min(kinds.count(kind) for kind in ("+I", "-U", "+U", "-D")) > KEYS


def changes(*given: tuple[int, str]) -> pa.RecordBatch:
    """(number, row kind): the rows of these changes."""
    rows = Input("append", KEYS, seed=3)
    parts = [rows.rows(number, number + 1).append_column("_row_kind", pa.array([kind])) for number, kind in given]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def test_a_net_without_keys_counts_every_row() -> None:
    net = Net("append")
    net.add(changes((1, "+I"), (2, "+I"), (2, "+I"), (3, "+I"), (3, "-D"), (4, "-D")))
    assert dict(net.table().select("id", "n").iter_rows()) == {1: 1, 2: 2, 4: -1}


def test_a_net_by_key_has_the_newest_row() -> None:
    rows = Input("changes", KEYS, seed=3)
    net = Net("changes")
    for first in range(0, 700, 50):
        net.add(rows.rows(first, first + 50))
    assert difference(counted(rows.table_after(700)), net.table()) == (0, 0)


def test_a_row_too_many_and_one_that_is_missing_are_seen() -> None:
    table = counted(Input("append", KEYS, seed=3).table_after(10))
    assert difference(table, table) == (0, 0)
    assert difference(table, table.head(7)) == (3, 0)
    assert difference(table, table.vstack(table.head(2))) == (0, 2)
    other = counted(Input("append", KEYS, seed=4).table_after(10))
    assert difference(table, other) == (10, 10)


def test_a_plan_of_kills_follows_from_its_seed_and_has_every_victim_in_each_round() -> None:
    plan, again, other = (list(islice(plan_kills(seed, 30, list(VICTIMS)), 20)) for seed in (5, 5, 6))
    assert plan == again != other
    for start in (0, 30, 60):
        assert sorted(k.victim for k in plan if start <= k.at_s < start + 30) == sorted(VICTIMS)

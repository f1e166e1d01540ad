"""What compactions tell: whoever applies the changelog has the table, and no change is told that is none."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.filestore.store import FileStore
from lakelog.paimon.schema.schema import TableSchema

PLACE = (b"\x00" * 12, 0)
I, UB, U, D = 0, 1, 2, 3  # noqa: E741 - row kinds
COLUMNS = (("id", "INT NOT NULL"), ("n", "BIGINT"), ("t", "STRING"))
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "max"}


def make(make_table: Any, options: dict[str, str]) -> Any:
    return make_like(make_table(columns=COLUMNS), {"num-sorted-run.compaction-trigger": "3", **options})


def make_like(table: Any, options: dict[str, str]) -> Any:
    """The same table with other options."""
    old = table.store.schema
    given = {**old.options, **options}
    schema = TableSchema(old.id, old.fields, old.highest_field_id, old.partition_keys, old.primary_keys, given)
    return type(table)(FileStore(table.store.io, table.store.table_path, schema))


def told(store: FileStore, snapshot: Any) -> list[tuple[Any, ...]]:
    """The changelog rows of a snapshot: kind, id, n, t."""
    if snapshot is None or snapshot.changelog_manifest_list is None:
        return []
    entries = store.manifests.live_of_list(snapshot.changelog_manifest_list)
    batches = [b for e in entries for b in store.files.read(*PLACE, e.file, store.schema.field_names, True)]
    return [(r["_VALUE_KIND"], r["id"], r["n"], r["t"]) for b in batches for r in b.to_pylist()]


def apply(state: dict[int, tuple[Any, ...]], changes: list[tuple[Any, ...]]) -> None:
    """Follows the changes; each must fit what is there."""
    for kind, key, *values in changes:
        if kind in (UB, D):
            assert state.pop(key) == tuple(values)
        else:
            assert key not in state
            state[key] = tuple(values)


def rows(table: Any) -> dict[int, tuple[Any, ...]]:
    return {r["id"]: (r["n"], r["t"]) for r in table.read()}


def test_a_large_file_emits_its_changes_when_it_moves_up(make_table) -> None:
    table = make(make_table, {"changelog-producer": "full-compaction", "target-file-size": "1 kb"})
    table.insert(*((I, k, k, "a") for k in range(500)))
    before = {e.file.file_name for e in table.store.live_entries(table.store.latest_snapshot())}
    snapshot = table.store.compact(*PLACE, full=True)
    assert {e.file.file_name for e in table.store.live_entries(snapshot)} == before
    assert told(table.store, snapshot) == [(I, k, k, "a") for k in range(500)]


def test_a_compaction_without_change_tracking_writes_no_changelog(make_table) -> None:
    table = make(make_table, {"changelog-producer": "lookup", "change-tracking": "false"})
    table.insert((I, 1, 1, "a"))
    snapshot = table.store.compact(*PLACE)
    assert (snapshot.changelog_manifest_list, rows(table)) == (None, {1: (1, "a")})


def test_a_forced_lookup_makes_whole_values_of_what_goes_up_half_way(make_table) -> None:
    table = make(make_table, {**SUMS, "changelog-producer": "full-compaction", "force-lookup": "true"})
    table.insert(*((I, k, 100, "a" * 40) for k in range(500)))
    state: dict[int, tuple[Any, ...]] = {}
    apply(state, told(table.store, table.store.compact(*PLACE, full=True)))
    table.insert((I, 1, 5, "b"), (I, 900, 5, "b"))
    assert told(table.store, table.store.compact(*PLACE)) == []
    assert rows(table)[1] == (105, "b")
    apply(state, told(table.store, table.store.compact(*PLACE, full=True)))
    assert state == rows(table)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_highest_level_is_that_of_the_files_when_the_options_had_more_levels(make_table, producer) -> None:
    options = {**SUMS, "changelog-producer": producer, "target-file-size": "1 kb"}
    table = make(make_table, options | {"num-levels": "10"})
    table.insert(*((I, k, 100, "a" * 40) for k in range(500)))
    state: dict[int, tuple[Any, ...]] = {}
    apply(state, told(table.store, table.store.compact(*PLACE, full=True)))
    table = make_like(table, {"num-levels": "9"})
    for n in range(4):
        table.insert((I, 1, n, "b"), (I, 900 + n, n, "b"))
        apply(state, told(table.store, table.store.compact(*PLACE)))
    if producer == "lookup":
        assert state == rows(table)
    assert rows(table)[1] == (106, "b")
    apply(state, told(table.store, table.store.compact(*PLACE, full=True)))
    assert state == rows(table)


def test_the_first_row_of_a_key_is_emitted_once(make_table) -> None:
    table = make(make_table, {"merge-engine": "first-row", "changelog-producer": "lookup"})
    seen = []
    for n in range(4):
        table.insert(*((I, k, n, "a") for k in range(n, n + 3)))
        seen += told(table.store, table.store.compact(*PLACE, full=n == 2))
    assert seen == [(I, 0, 0, "a"), (I, 1, 0, "a"), (I, 2, 0, "a"), (I, 3, 1, "a"), (I, 4, 2, "a"), (I, 5, 3, "a")]
    assert rows(table) == {key: values for _, key, *values in map(list, seen) for values in [tuple(values)]}

"""The index of a lookup join: it finds what the table has now, whatever has happened to it, from both sources."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.io.storage.local import ScratchFileIO
from lakelog.lake.table import Table
from lakelog.merge.keys import key_parts, sort_rows
from lakelog.state import sorted_run as keyed_run
from lakelog.state.keyed_state import KeyedState
from lakelog.state.sorted_run import BlockCache
from lakelog.table.lookup.index import LookupIndex, LookupSpec
from limits import limit
from log_tables import trim

LOGS = {
    "log": "'log-store.enabled' = 'true'",
    "arrow log": "'log-store.enabled' = 'true', 'log-store.data-format' = 'arrow'",
    "whole changes": "'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'",
    "files": "'log-store.enabled' = 'false'",
    "files with a sequence": "'sequence.field' = 'n'",
    "files that are compacted": "'full-compaction.delta-commits' = '1'",
}


def make(tmp_path: Path, more: str, buckets: int = 2) -> Table:
    """A table (a, b, n) with the key (a, b)."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (n bigint, a int, b string, primary key (a, b)) using lakelog "
        f"tblproperties ('bucket' = '{buckets}', 'bucket-key' = 'a', {more})"
    )
    return lake.table("db.t")


def changes(rows: list[tuple[int, str, int]], kinds: list[str] | None = None) -> pa.Table:
    a, b, n = zip(*rows, strict=True)
    table = pa.table({"n": pa.array(n, pa.int64()), "a": pa.array(a, pa.int32()), "b": pa.array(b, pa.string())})
    return table if kinds is None else table.append_column("_row_kind", pa.array(kinds))


def index_of(
    table: Table,
    directory: Path,
    on: tuple[str, ...] = ("a", "b"),
    bucket: int | None = None,
    memory: int = 1 << 20,
    **hints: str,
) -> LookupIndex:
    spec = LookupSpec(table.logical.with_hints(hints), on, ("a", "b", "n"))
    spec.check()
    return LookupIndex(spec, bucket, str(directory), BlockCache(memory))


def found(index: LookupIndex, keys: list[tuple[Any, ...]]) -> list[tuple[int, str, int]]:
    """The rows that keys find, sorted; fails when a row is given for another key than its own."""
    wanted = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(zip(*keys, strict=True), index.spec.key_schema, strict=True)],
        index.spec.key_schema.names,
    )
    wanted = wanted.take(pa.array(sort_rows(key_parts(wanted, wanted.schema.names))))
    places, rows = index.find(key_parts(wanted, wanted.schema.names))
    assert list(places) == sorted(places)
    asked = wanted.to_pylist()
    for place, row in zip(places, rows.to_pylist(), strict=True):
        assert asked[place] == {name: row[name] for name in index.spec.on}
    return sorted((r["a"], r["b"], r["n"]) for r in rows.to_pylist())


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, runs and memory so small that a few rows make many of them."""
    monkeypatch.setattr(keyed_run, "BLOCK_ROWS", 4)
    limit(monkeypatch, lookup_bytes=300)


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("on", [("a", "b"), ("b", "a"), ("a",), ("b",)])
def test_it_finds_what_a_dict_has(tmp_path, tiny, kind, on, depth) -> None:
    table = make(tmp_path, LOGS[kind])
    dice = random.Random(f"{kind} {on}")
    want: dict[tuple[int, str], int] = {}
    index = index_of(table, tmp_path / "index", on)
    for step in range(4 + depth.cases(10)):
        chosen = {(dice.randrange(8), dice.choice("xyzé")) for _ in range(dice.randrange(1, 12))}
        rows, kinds = [], []
        for a, b in sorted(chosen):
            is_gone = dice.random() < 0.3 and (a, b) in want
            rows.append((a, b, 1000 * step + dice.randrange(100)))
            kinds.append("-D" if is_gone else "+U")
            if is_gone:
                rows[-1] = (a, b, 1000 * step if "sequence" in kind else want[a, b])
                del want[a, b]
            else:
                want[a, b] = rows[-1][2]
        table.write(changes(rows, kinds))
        if dice.random() < 0.1:
            table.compact()
        if dice.random() < 0.1:  # a worker that starts again
            index.close()
            index = index_of(table, tmp_path / "index", on)
        if dice.random() < 0.7:
            index.refresh()
            everything = sorted({tuple({"a": a, "b": b}[c] for c in on) for a in range(9) for b in "xyzéä"})
            asked = dice.sample(everything, dice.randrange(1, len(everything) + 1))
            live = [(a, b, n) for (a, b), n in want.items() if tuple({"a": a, "b": b}[c] for c in on) in asked]
            assert found(index, asked) == sorted(live), step


@pytest.mark.parametrize("kind", ["log", "files"])
def test_an_index_of_one_bucket_has_its_rows_only(tmp_path, kind) -> None:
    table = make(tmp_path, LOGS[kind], buckets=3)
    rows = [(a, "x", a) for a in range(30)]
    table.write(changes(rows[:15]))
    indexes = [index_of(table, tmp_path / "index", ("a",), bucket) for bucket in range(3)]
    for index in indexes:
        index.refresh()
    table.write(changes(rows[15:]))
    parts = []
    for index in indexes:
        index.refresh()
        parts.append(found(index, [(a,) for a in range(30)]))
    assert all(parts)
    assert sorted(row for part in parts for row in part) == rows


@pytest.mark.parametrize("kind", ["log", "files"])
def test_it_is_rebuilt_if_the_table_cannot_list_its_changes(tmp_path, kind) -> None:
    table = make(tmp_path, LOGS[kind])
    table.write(changes([(1, "x", 1), (2, "x", 1)]))
    index = index_of(table, tmp_path / "index")
    index.refresh()
    for n in (2, 3):
        table.write(changes([(1, "x", n)]))
    if kind == "log":
        trim(table)
    else:
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=None)
    index.refresh()
    assert found(index, [(1, "x"), (2, "x")]) == [(1, "x", 3), (2, "x", 1)]
    assert index.begun == 2
    assert len(list((tmp_path / "index").glob("*"))) <= 1, "what was before is gone"


def test_an_overwrite_and_a_rollback_are_seen_in_the_files(tmp_path) -> None:
    table = make(tmp_path, LOGS["files"])
    table.write(changes([(1, "x", 1), (2, "x", 1)]))
    index = index_of(table, tmp_path / "index")
    index.refresh()
    first = table.latest_snapshot().id
    table.truncate()
    table.write(changes([(3, "x", 1)]))
    index.refresh()
    keys = [(1, "x"), (2, "x"), (3, "x")]
    assert found(index, keys) == [(3, "x", 1)]
    assert index.begun == 1, "followed, not made anew"
    table.rollback_to(first)
    index.refresh()
    assert found(index, keys) == [(1, "x", 1), (2, "x", 1)]


def test_the_files_of_a_table_with_a_log_can_be_followed(tmp_path) -> None:
    table = make(tmp_path, LOGS["log"])
    table.write(changes([(1, "x", 1)]), options={"emit.mode": "file"})
    index = index_of(table, tmp_path / "files", **{"lookup.source": "files"})
    by_log = index_of(table, tmp_path / "log")
    for one in (index, by_log):
        one.refresh()
    table.write(changes([(1, "x", 2)]), options={"emit.mode": "file"})
    for one in (index, by_log):
        one.refresh()
    assert found(index, [(1, "x")]) == [(1, "x", 2)]
    assert found(by_log, [(1, "x")]) == [(1, "x", 1)], "the log was not told"


def test_a_fresh_inspection_is_reused(tmp_path) -> None:
    table = make(tmp_path, LOGS["files"])
    index = index_of(table, tmp_path / "index")
    index.refresh()
    as_of = index.as_of_s
    table.write(changes([(1, "x", 1)]))
    index.refresh(as_of)
    assert (index.as_of_s, found(index, [(1, "x")])) == (as_of, [])
    index.refresh(as_of + 1e-6)
    assert index.as_of_s > as_of
    assert found(index, [(1, "x")]) == [(1, "x", 1)]


def test_what_cannot_be_looked_up_is_refused(tmp_path) -> None:
    table = make(tmp_path, LOGS["files"]).logical
    with pytest.raises(InvalidRequest, match=r"columns of its primary key \(a, b\); 'n' is not one of them"):
        LookupSpec(table, ("n",), ("a",)).check()
    with pytest.raises(InvalidRequest, match=r"columns of its primary key \(a, b\)$"):
        LookupSpec(table, (), ("a",)).check()
    with pytest.raises(InvalidSchema, match="no column 'c'; it has: n, a, b"):
        LookupSpec(table, ("a",), ("c",)).check()
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.plain (a int) using lakelog")
    with pytest.raises(InvalidRequest, match=r"db.plain has no primary key"):
        LookupSpec(lake.table("db.plain").logical, ("a",), ("a",)).check()


def test_blocks_take_no_more_memory_than_they_may(tmp_path, tiny) -> None:
    table = make(tmp_path, LOGS["files"])
    table.write(changes([(a, "x", a) for a in range(400)]))
    index = index_of(table, tmp_path / "index", ("a",), memory=1000)
    index.refresh()
    for _ in range(2):
        assert len(found(index, [(a,) for a in range(400)])) == 400
    cache = index._cache
    assert 0 < cache.bytes <= 1000
    assert cache.loads > 100, "more blocks than fit"
    before = cache.loads
    for _ in range(3):
        found(index, [(1,)])
    assert cache.hits > 0
    assert cache.loads <= before + 3
    index.close()
    assert cache.bytes == 0
    assert list((tmp_path / "index").glob("*")) == []


def test_a_lookup_of_part_of_a_key_sees_the_newest_row_of_each(tmp_path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("n", pa.int64()), ("_VALUE_KIND", pa.int8())])
    state = KeyedState(ScratchFileIO(), str(tmp_path), schema, ["a", "b"], 0, False)
    state.put(pa.Table.from_pylist([{"a": 1, "b": b, "n": 0, "_VALUE_KIND": 0} for b in range(20_000)], schema))
    state._flush()
    state.put(pa.Table.from_pylist([{"a": 1, "b": 7, "n": 1, "_VALUE_KIND": 3}], schema))
    state.put(pa.Table.from_pylist([{"a": 1, "b": 8, "n": 1, "_VALUE_KIND": 0}], schema))
    places, rows = state.find_all([pa.array([0, 1, 2]).to_numpy()])
    assert set(places) == {1}
    got = dict(zip(rows["b"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert got == {b: int(b == 8) for b in range(20_000) if b != 7}

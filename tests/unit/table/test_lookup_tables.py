"""The indexes of a process: shared by its tasks, kept fresh by a thread if asked, deleted with it; the statistics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, Unavailable
from lakelog.io.scratch import ScratchDirectory
from lakelog.lake.table import Table
from lakelog.merge.keys import key_parts
from lakelog.table.lookup import index_cache as lookup_tables
from lakelog.table.lookup import stats
from lakelog.table.lookup.index import LookupIndex, LookupSpec
from lakelog.table.lookup.index_cache import LookupTable, LookupTables
from lakelog.table.lookup.stats import LookupStats, check_name, delete_old_stats, lookup_stats, save_stats
from log_tables import make, rows


def spec_of(table: Table, **hints: str) -> LookupSpec:
    return LookupSpec(table.logical.with_hints(hints), ("id",), ("name",))


def name_of(index: LookupIndex, key: int) -> str | None:
    wanted = pa.RecordBatch.from_arrays([pa.array([key], pa.int32())], ["id"])
    found = index.find(key_parts(wanted, ["id"]))[1].column("name").to_pylist()
    return found[0] if found else None


@pytest.fixture
def table(tmp_path) -> Table:
    made = make(tmp_path)
    made.write(rows(1))
    return made


def write(table: Table, name: str) -> None:
    table.write(rows(1, name=name))


def test_a_task_sees_the_state_at_its_start(table, tmp_path) -> None:
    tables = LookupTables(str(tmp_path / "local"))
    joined = tables.table(spec_of(table, **{"lookup.refresh-interval": "1 h"}), "join")
    began = time.monotonic()
    assert name_of(joined.index(None, began), 1) == "a"
    write(table, "b")
    assert name_of(joined.index(None, began), 1) == "a", "the same task, before the interval is over"
    assert name_of(joined.index(None, time.monotonic()), 1) == "b", "the next task"
    assert tables.table(spec_of(table, **{"lookup.refresh-interval": "1 h"}), "join") is joined
    assert tables.table(spec_of(table), "join") is not joined
    tables.close()


def test_a_thread_keeps_an_index_fresh(table, tmp_path) -> None:
    tables = LookupTables(str(tmp_path / "local"))
    joined = tables.table(spec_of(table, **{"lookup.async": "true", "lookup.refresh-interval": "20 ms"}), "join")
    assert name_of(joined.index(None, time.monotonic()), 1) == "a"
    write(table, "b")
    end = time.monotonic() + 120
    while name_of(joined._indexes[None], 1) != "b" and time.monotonic() < end:
        time.sleep(0.02)
    assert name_of(joined._indexes[None], 1) == "b", "nobody asked"
    tables.close()


def test_an_index_that_its_thread_cannot_refresh_says_so_in_the_end(table, tmp_path, monkeypatch) -> None:
    joined = LookupTable(spec_of(table, **{"lookup.async": "true"}), "join", str(tmp_path / "local"))
    index = joined.index(None, time.monotonic())

    def away(source: object) -> None:
        raise Unavailable("the log is away")

    monkeypatch.setattr(index, "_take", away)
    assert name_of(joined.index(None, time.monotonic()), 1) == "a", "what is there, for a while"
    monkeypatch.setattr(lookup_tables, "_OLDEST_S", 0.0)
    joined.interval_s = 0.0
    with pytest.raises(Unavailable, match="the log is away"):
        joined.index(None, time.monotonic())
    joined.close()


def test_unused_indexes_go(table, tmp_path, monkeypatch) -> None:
    tables = LookupTables(str(tmp_path / "local"))
    joined = tables.table(spec_of(table), "join")
    joined.index(None, time.monotonic())
    monkeypatch.setattr(lookup_tables, "_UNUSED_S", -1.0)
    tables._forget_unused()
    assert tables.table(spec_of(table), "join") is not joined
    tables.close()
    assert list((tmp_path / "local").iterdir()) == []


def test_statistics_are_kept_and_added_up(table, tmp_path) -> None:
    tables = LookupTables(str(tmp_path / "local"))
    for join in ("one", "two"):
        joined = tables.table(spec_of(table), join)
        joined.index(None, time.monotonic())
        joined.stats.answered(99, 3.0)
        joined.stats.answered(1, 150.0)
        joined.stats.found += 60
    tables.close()
    save_stats(table.logical, "two", "another", LookupStats(probes=900, oldest_ms=20_000.0, ages=[0] * 20 + [900]))
    one, two = lookup_stats(table.logical).to_pylist()
    want = {"name": "one", "workers": 1, "probes": 100, "found": 60, "begun": 1, "index_rows": 1}
    assert {key: one[key] for key in want} == want
    assert (one["age_p50_ms"], one["age_p99_ms"], one["age_max_ms"]) == (5.0, 5.0, 150.0)
    assert (two["workers"], two["probes"], two["age_p99_ms"], two["age_max_ms"]) == (2, 1000, None, 20_000.0)
    assert lookup_stats(table.logical, "two").num_rows == 1
    assert lookup_stats(table.logical, "three").num_rows == 0


def test_old_statistics_are_deleted_with_orphan_cleaning(table, monkeypatch) -> None:
    save_stats(table.logical, "old", "w", LookupStats())
    table.remove_orphan_files()
    assert lookup_stats(table.logical).num_rows == 1
    monkeypatch.setattr(stats, "_KEPT_MS", -1000)
    delete_old_stats(table.logical)
    assert lookup_stats(table.logical).num_rows == 0


@pytest.mark.parametrize("name", ["", " ", ".x", "a/b", "a\\b"])
def test_a_name_that_is_no_directory_is_refused(name) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the name of a lookup join"):
        check_name(name)


_HOLD = """
import sys, time
from lakelog.io.scratch import ScratchDirectory
held = ScratchDirectory(sys.argv[1], "p-")
open(held.path + "/rows", "w").close()
print(held.path, flush=True)
time.sleep(60)
"""


def test_a_directory_goes_with_its_process_or_with_the_next_one(tmp_path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    theirs = Path(child.stdout.readline().strip())
    mine = ScratchDirectory(str(tmp_path), "p-")
    assert (theirs / "rows").exists(), "its process lives"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert theirs.exists()
    other = ScratchDirectory(str(tmp_path), "p-")
    assert not theirs.exists()
    assert Path(mine.path).exists()
    mine.close()
    other.close()
    assert list(tmp_path.iterdir()) == []

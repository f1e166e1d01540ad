"""A refresh dies, or an answer of the storage is lost, at every write: the next refresh counts each change once.

Three bugs of other systems have a test each: a cursor that another view of the name takes over, a cursor that is lost
with the newest snapshot, and a cursor that is committed apart from the rows.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from changelogs import newest
from depth import Depth
from lakelog.errors import CommitUnknown, LakelogError, Unavailable
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake import Lake
from lakelog.table.commit import seal_thread

CALLS = ("write", "create", "open_output", "delete")
KINDS = ("dies", "fails before", "fails after")


class Died(BaseException):
    """The process is gone."""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    lake = lakelog.connect(str(tmp_path / "made"))
    lake.sql("create table db.t (id int, g string, v int, primary key (id)) with ('log-store.enabled' = 'true')")
    write(lake, {1: ("a", 1), 2: ("a", 2), 3: ("b", 3)})
    lake.views.create("db.v", "select g, count(*) as n, sum(v) as s from db.t group by g")
    write(lake, {2: ("b", 5), 4: ("c", 7)})
    lake.write(pa.table({"id": pa.array([3], pa.int32()), "_row_kind": ["-D"]}), "db.t", missing="null")
    return tmp_path / "made"


def write(lake: Lake, rows: dict[int, tuple[str, int]]) -> None:
    groups, values = ([row[at] for row in rows.values()] for at in (0, 1))
    ids = pa.array(list(rows), pa.int32())
    lake.write(pa.table({"id": ids, "g": groups, "v": pa.array(values, pa.int32())}), "db.t")


def answer(lake: Lake, name: str = "db.v") -> list[tuple[Any, ...]]:
    found = lake.table(name).scan(["g", "n", "s"]).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def folded(lake: Lake) -> list[tuple[Any, ...]]:
    found = newest(lake.table("db.v").tail("earliest", stop="latest"), "_key")
    return sorted((row["g"], row["n"], row["s"]) for row in found.values())


@contextlib.contextmanager
def failing(patch: pytest.MonkeyPatch, number: int, kind: str) -> Iterator[list[str]]:
    """The storage call of a number goes wrong; the list has all calls."""
    calls: list[str] = []

    def around(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: LocalFileIO, path: str, *more: Any) -> Any:
            calls.append(f"{name} {path}")
            if kind == "dies" and len(calls) >= number:
                raise Died if threading.current_thread() is threading.main_thread() else Unavailable("it is dead")
            if len(calls) == number and kind == "fails before":
                raise Unavailable(f"{name} {path} failed")
            result = own(self, path, *more)
            if len(calls) == number:
                raise (CommitUnknown if name == "create" else Unavailable)(f"{name} {path} failed afterwards")
            return result

        return call

    with patch.context() as inner:
        for name in CALLS:
            inner.setattr(LocalFileIO, name, around(name, getattr(LocalFileIO, name)))
        yield calls


def test_a_refresh_that_dies_anywhere_leaves_nothing_half_done(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: Depth
) -> None:
    expected = [("a", 1, 1), ("b", 1, 5), ("c", 1, 7)]
    whole = shutil.copytree(made, tmp_path / "whole")
    with failing(monkeypatch, 10**9, "never") as calls:
        lakelog.connect(str(whole)).views.refresh("db.v")
    assert answer(lakelog.connect(str(whole))) == expected
    points = [(number, kind) for number in range(1, len(calls) + 1) for kind in KINDS]
    for number, kind in depth.some(points):
        place = shutil.copytree(made, tmp_path / "tried")
        lake = lakelog.connect(str(place))
        with failing(monkeypatch, number, kind), contextlib.suppress(LakelogError, Died):
            lake.views.refresh("db.v")
        seal_thread._SEALERS.clear()  # as in a new process
        again = lakelog.connect(str(place))
        again.views.refresh("db.v")
        shown = f"{kind} at call {number}: {calls[number - 1]}"
        assert (answer(again), folded(again)) == (expected, expected), shown
        write(again, {1: ("c", 1)})
        again.views.refresh("db.v")
        assert answer(again) == [("b", 1, 5), ("c", 2, 8)], shown
        shutil.rmtree(place)


def test_a_new_view_of_a_name_takes_over_no_cursor(made: Path) -> None:
    lake = lakelog.connect(str(made))
    query = "select g, count(*) as n, sum(v) as s from db.t group by g"
    lake.views.create("db.other", query)
    lake.views.refresh("db.other")
    lake.views.drop("db.v")
    lake.views.create("db.v", query)
    assert answer(lake) == answer(lake, "db.other") == [("a", 1, 1), ("b", 1, 5), ("c", 1, 7)]


def test_the_cursor_outlives_snapshots_of_others(made: Path) -> None:
    """The newest snapshot of the view is that of a compaction, and those of its refreshes have expired."""
    lake = lakelog.connect(str(made))
    lake.views.refresh("db.v")
    lake.table("db.v").compact()
    for consumer in lake.table("db.v").logical.store.consumers.list():
        lake.table("db.v").logical.store.consumers.delete(consumer.name)
    lake.sql("call sys.expire_snapshots(table => 'db.v', retain_max => 1, retain_min => 1)")
    assert lake.views.refresh("db.v").is_current
    write(lake, {1: ("c", 1)})
    refresh = lake.views.refresh("db.v")
    assert not refresh.is_whole and answer(lake) == [("b", 1, 5), ("c", 2, 8)]

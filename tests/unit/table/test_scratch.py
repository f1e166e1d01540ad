"""A scratch directory that is full or not there ends what needs it with an error that names it."""

from __future__ import annotations

import contextlib
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, Unavailable
from lakelog.lake.table import Table
from lakelog.table.lookup import index_cache as lookup_tables
from lakelog.table.lookup.index import LookupSpec
from limits import limit

WHOLE_CHANGES = {"log.consumer.normalize": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, v string, primary key (id)) tblproperties ("
        "'log-store.enabled' = 'true', 'log.changelog-mode' = 'upsert', 'bucket' = '1')"
    )
    return lake.table("db.t")


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"id": pa.array(range(count), pa.int32()), "v": [rng.bytes(1000).hex() for _ in range(count)]})


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory for temporary files, which cannot be made either."""
    (tmp_path / "file").write_bytes(b"")
    place = str(tmp_path / "file" / "scratch")
    monkeypatch.setattr(tempfile, "tempdir", place)
    return place


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Files of this process cannot grow beyond 256 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write(table: Table, count: int) -> None:
    table.write(rows(count))


def test_a_tail_of_whole_changes_names_the_directory_that_is_missing(table: Table, missing: str) -> None:
    write(table, 3)
    with pytest.raises(Unavailable, match=f"{missing}.*TMPDIR"):
        list(table.tail("earliest", stop="latest", options=WHOLE_CHANGES))


def test_a_tail_of_whole_changes_names_the_file_for_which_there_is_no_room(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limit(monkeypatch, keyed_bytes=1 << 10)
    write(table, 1000)
    with full_disk(), pytest.raises(Unavailable, match=f"{tmp_path}/lakelog-normalize-"):
        list(table.tail("earliest", stop="latest", options=WHOLE_CHANGES))
    assert [path for path in tmp_path.iterdir() if path.name.startswith("lakelog-")] == []


@pytest.mark.parametrize("place", ["missing", "full"])
def test_a_write_that_has_to_spill_names_the_file_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, v string, primary key (id)) "
        "tblproperties ('bucket' = '1', 'write-buffer-size' = '64 kb')"
    )
    table = lake.table("db.t")
    (tmp_path / "file").write_bytes(b"")
    scratch = str(tmp_path / ("file" if place == "missing" else "")).rstrip("/")
    monkeypatch.setattr(tempfile, "tempdir", scratch)
    disk = full_disk() if place == "full" else contextlib.nullcontext()
    with disk, pytest.raises((Unavailable, InvalidRequest), match=f"{scratch}/lakelog-spill-"):
        write(table, 1000)
    assert table.scan().to_arrow().num_rows == 0
    assert [path for path in tmp_path.iterdir() if path.name.startswith("lakelog-")] == []


def test_a_lookup_index_names_the_file_for_which_there_is_no_room(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(table, 1000)
    tables = lookup_tables.LookupTables(str(tmp_path / "scratch"))
    limit(monkeypatch, lookup_bytes=1 << 10)
    found = tables.table(LookupSpec(table.logical, ("id",), ("id", "v")), "j")
    with full_disk(), pytest.raises(Unavailable, match=f"{tmp_path}/scratch"):
        found.index(0, 0.0)
    tables.close()


def test_a_lookup_join_names_the_directory_that_is_missing(missing: str) -> None:
    with pytest.raises(Unavailable, match=f"{missing}.*TMPDIR"):
        lookup_tables.LookupTables()

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.catalog import CATALOGS
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import CommitConflict, NotFound, TableReplaced, Unavailable
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import BIGINT, STRING

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
SCHEMA = new_schema([("id", BIGINT, None), ("name", STRING, None)], ["id"], [], {"bucket": "2"})
ORDERS = Identifier("shop", "orders")


@pytest.fixture(params=["local", "memory"])
def io(request: pytest.FixtureRequest) -> FileIO:
    return LocalFileIO() if request.param == "local" else MemoryFileIO(request.node.name)


@pytest.fixture
def catalog(io: FileIO, tmp_path: Path) -> FilesystemCatalog:
    return FilesystemCatalog(str(tmp_path / "warehouse"), io)


@pytest.fixture
def shop(catalog: FilesystemCatalog) -> FilesystemCatalog:
    catalog.create_database("shop")
    return catalog


def test_a_table_of_paimon_is_found_and_read() -> None:
    catalog = FilesystemCatalog(str(GOLDEN / "pk_dedup"), LocalFileIO())
    assert catalog.list_databases() == ["g"]
    assert catalog.list_tables("g") == ["pk_dedup"]
    location = catalog.load_table(Identifier("g", "pk_dedup"))
    assert location.schema.field_names == ("id", "name", "score")
    assert location.path == str(GOLDEN / "pk_dedup" / "g.db" / "pk_dedup")


def test_a_table_that_cannot_be_listed_does_not_hide_the_others(
    shop: FilesystemCatalog, io: FileIO, monkeypatch
) -> None:
    shop.create_table(ORDERS, SCHEMA)
    shop.create_table(Identifier("shop", "closed"), SCHEMA)
    real = type(io).list

    def denied(self: FileIO, path: str) -> list[FileStatus]:
        if path.endswith("closed/schema"):
            raise Unavailable(f"{path}: permission denied")
        return real(self, path)

    monkeypatch.setattr(type(io), "list", denied)
    assert sorted(shop.list_tables("shop")) == ["closed", "orders"]
    with pytest.raises(Unavailable):
        shop.load_table(Identifier("shop", "closed"))


def test_the_newest_schema_is_loaded(shop: FilesystemCatalog, io: FileIO) -> None:
    made = shop.create_table(ORDERS, SCHEMA)
    for number in (2, 10):
        data = new_schema([(f"c{number}", BIGINT, None)]).to_json()
        io.write(f"{made.path}/schema/schema-{number}", data)
    io.write(f"{made.path}/schema/.schema-11.tmp", b"half")
    assert shop.load_table(ORDERS).schema.field_names == ("c10",)


@pytest.mark.parametrize("moves", [True, False], ids=["moves", "in place"])
def test_a_drop_that_stopped_half_way_can_be_repeated(
    shop: FilesystemCatalog, io: FileIO, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    made = shop.create_table(ORDERS, SCHEMA)
    io.write(f"{made.path}/bucket-0/data-1.parquet", b"1")
    io.write(f"{made.path}/snapshot/snapshot-1", b"1")
    if not moves:
        monkeypatch.setattr(type(io), "rename_dir", FileIO.rename_dir)
    delete_dir = io.delete_dir

    def first_only(path: str) -> None:
        monkeypatch.setattr(io, "delete_dir", delete_dir)
        delete_dir(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "delete_dir", first_only)
    with pytest.raises(KeyboardInterrupt):
        shop.drop_table(ORDERS)
    assert not io.exists(f"{made.path}/snapshot")
    assert shop.list_tables("shop") == ([] if moves else ["orders"])
    if moves:
        shop.create_table(ORDERS, SCHEMA)
    shop.drop_table(ORDERS)
    assert io.list(shop.database_path("shop")) == []


def test_a_drop_that_is_slower_than_another_leaves_the_table_that_was_created_meanwhile(
    shop: FilesystemCatalog, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the old table and is suspended before it takes it away."""
    shop.create_table(ORDERS, SCHEMA)
    other = replace(SCHEMA, time_millis=SCHEMA.time_millis + 1)
    rename = io.rename_dir

    def paused(path: str, new_path: str) -> None:
        monkeypatch.setattr(io, "rename_dir", rename)
        shop.drop_table(ORDERS)
        shop.create_table(ORDERS, other)
        io.write(f"{shop.table_path(ORDERS)}/bucket-0/data-1.parquet", b"1")
        rename(path, new_path)

    monkeypatch.setattr(io, "rename_dir", paused)
    with pytest.raises(NotFound, match=r"shop\.orders was dropped or renamed"):
        shop.drop_table(ORDERS)
    assert shop.load_table(ORDERS).schema == other
    assert io.read(f"{shop.table_path(ORDERS)}/bucket-0/data-1.parquet") == b"1"


def test_a_drop_whose_table_another_drop_cleans_away_is_done(
    shop: FilesystemCatalog, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_table(ORDERS, SCHEMA)
    rename = io.rename_dir

    def cleaned(path: str, new_path: str) -> None:
        rename(path, new_path)
        shop.drop_table(ORDERS, if_exists=True)

    monkeypatch.setattr(io, "rename_dir", cleaned)
    shop.drop_table(ORDERS)
    assert io.list(shop.database_path("shop")) == []


def test_a_slow_rename_leaves_the_table_that_was_created_meanwhile(
    shop: FilesystemCatalog, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_table(ORDERS, SCHEMA)
    first, second, rename = Identifier("shop", "first"), Identifier("shop", "second"), io.rename_dir
    other = replace(SCHEMA, time_millis=SCHEMA.time_millis + 1)

    def paused(path: str, new_path: str) -> None:
        monkeypatch.setattr(io, "rename_dir", rename)
        shop.rename_table(ORDERS, first)
        shop.create_table(ORDERS, other)
        rename(path, new_path)

    monkeypatch.setattr(io, "rename_dir", paused)
    with pytest.raises(NotFound, match=r"shop\.orders was dropped or renamed"):
        shop.rename_table(ORDERS, second)
    assert shop.list_tables("shop") == ["first", "orders"]
    assert shop.load_table(ORDERS).schema == other


def test_a_table_that_a_slow_drop_cannot_put_back_is_kept_and_named(
    shop: FilesystemCatalog, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_table(ORDERS, SCHEMA)
    rename, calls = io.rename_dir, list[str]()

    def paused(path: str, new_path: str) -> None:
        calls.append(new_path)
        for number in {1: (1, 2), 4: (3,)}.get(len(calls), ()):
            if number < 3:
                shop.drop_table(ORDERS, if_exists=True)
            shop.create_table(ORDERS, replace(SCHEMA, time_millis=SCHEMA.time_millis + number))
        rename(path, new_path)

    monkeypatch.setattr(io, "rename_dir", paused)
    with pytest.raises(TableReplaced, match=r"is in '.*\.dropped-.*': move that directory") as refused:
        shop.drop_table(ORDERS)
    monkeypatch.setattr(io, "rename_dir", rename)
    shop.drop_table(ORDERS)
    kept = str(refused.value).split("'")[1]
    rename(kept, shop.table_path(ORDERS))
    assert shop.load_table(ORDERS).schema.time_millis == SCHEMA.time_millis + 2


def test_a_create_whose_directory_was_renamed_raises_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is in the directory before the schema; without it there must be no table."""
    io = LocalFileIO()
    shop = FilesystemCatalog(str(tmp_path / "warehouse"), io)
    shop.create_database("shop")
    path = shop.table_path(ORDERS)
    io.write(f"{path}/lakelog/log.sqlite", b"1")
    within = LocalFileIO.within

    def moved(io: LocalFileIO, root: str) -> FileIO:
        found = within(io, root)
        io.rename_dir(root, f"{root}2")
        return found

    monkeypatch.setattr(LocalFileIO, "within", moved)
    with pytest.raises(CommitConflict, match="was moved while table"):
        shop.create_table(ORDERS, replace(SCHEMA, options={**SCHEMA.options, "log-store.type": "embedded"}))
    assert not io.exists(path)


def test_a_relative_warehouse_stays_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = CATALOGS.create("filesystem", "./warehouse", LocalFileIO())
    assert catalog.create_table(Identifier("default", "t"), SCHEMA).path == f"{tmp_path}/warehouse/default.db/t"

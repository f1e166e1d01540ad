"""What only a real server shows of the REST catalog: commits, lost answers, rivals, rollbacks, changes of a schema."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import Lake, connect
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.schema.changes import (
    FIRST,
    LAST,
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangePosition,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    after,
    before,
)
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import BIGINT, INT, STRING, parse_type
from lakelog.table.open import open_catalog
from servers.rest_catalog import RestServer, RestServers

pytestmark = pytest.mark.rest

KEYED = "create table db.t (id int, c string, primary key (id)) using lakelog tblproperties ('bucket' = '2')"
BY_DAY = new_schema(
    [("id", INT, None), ("day", INT, None)],
    ["day", "id"],
    ["day"],
    {"bucket": "1", "metastore.partitioned-table": "true"},
)


@pytest.fixture
def server(rest_servers: RestServers, tmp_path: Path) -> Iterator[RestServer]:
    started = rest_servers.open(str(tmp_path / "warehouse"), "lake")
    yield started
    started.stop()


def lake_of(server: RestServer, tmp_path: Path, **more: str) -> Lake:
    return connect(warehouse=str(tmp_path / "warehouse"), catalog_options={**server.options, **more})


@pytest.fixture
def lake(server: RestServer, tmp_path: Path) -> Lake:
    return lake_of(server, tmp_path)


def told(server: RestServer, what: str, body: Any = None) -> Any:
    """What the server says of a table to everybody who asks, or is asked to do with it."""
    asked = urllib.request.Request(
        f"{server.url}/v1/paimon/databases/db/tables/{what}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {server.token}"},
    )
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return json.loads(answer.read() or b"null")


def newest_of(server: RestServer, table: str = "t") -> int:
    """The id of the snapshot that the server takes for the newest one."""
    return int(told(server, f"{table}/snapshot")["snapshot"]["snapshot"]["id"])


def write(lake: Lake, **columns: list[Any]) -> None:
    table = lake.table("db.t")
    table.write(pa.table(columns).cast(pa.schema([table.schema.field(name) for name in columns])), missing="null")


def ids(lake: Lake) -> list[int]:
    return sorted(lake.table("db.t").scan().to_arrow()["id"].to_pylist())


def test_the_server_has_every_commit_and_counts_what_is_in_the_partitions(
    lake: Lake, server: RestServer, tmp_path: Path
) -> None:
    lake.sql("create database db")
    open_catalog(str(tmp_path / "warehouse"), None, server.options).create_table(Identifier("db", "t"), BY_DAY)
    for first in range(0, 60, 10):
        write(lake, id=list(range(first, first + 10)), day=[7] * 5 + [8] * 5)
    lake.table("db.t").compact(full=True)
    write(lake, id=[100], day=[9])
    assert len(ids(lake)) == 61
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None
    snapshot = told(server, "t/snapshot")["snapshot"]
    assert snapshot["snapshot"]["id"] == newest.id and snapshot["snapshot"]["commitUser"] == newest.commit_user
    assert (snapshot["recordCount"], snapshot["fileCount"]) == (61, 3)
    partitions = {p["spec"]["day"]: p for p in told(server, "t/partitions")["partitions"]}
    assert {day: (p["recordCount"], p["fileCount"]) for day, p in partitions.items()} == {
        "7": (30, 1),
        "8": (30, 1),
        "9": (1, 1),
    }
    lake.table("db.t").drop_partitions([{"day": 8}])
    assert {p["spec"]["day"] for p in told(server, "t/partitions")["partitions"]} == {"7", "9"}
    assert len(ids(lake)) == 31


def test_a_commit_whose_answer_is_lost_is_made_once(lake: Lake, server: RestServer, rest_servers: RestServers) -> None:
    lake.sql(KEYED)
    for number in range(1, 4):
        rest_servers.lose_answer_of_next_commit()
        write(lake, id=[number], c=["a"])
        assert newest_of(server) == number
    assert ids(lake) == [1, 2, 3]
    assert lake.table("db.t").history().num_rows == 3


def test_rivals_lose_no_row(lake: Lake, server: RestServer, tmp_path: Path) -> None:
    lake.sql(KEYED.replace("'bucket' = '2'", "'bucket' = '2', 'commit.max-retries' = '100'"))
    together, failures = threading.Barrier(4), []

    def commit(rival: int) -> None:
        mine = lake_of(server, tmp_path)
        together.wait()
        try:
            for number in range(6):
                write(mine, id=[rival * 100 + number], c=[f"{rival}"])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=commit, args=(rival,)) for rival in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ids(lake) == [rival * 100 + number for rival in range(4) for number in range(6)]
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None and newest_of(server) == newest.id >= 24


def test_a_rollback_is_known_to_the_server_and_commits_go_on_from_there(lake: Lake, server: RestServer) -> None:
    lake.sql(KEYED)
    for number in range(1, 5):
        write(lake, id=[number], c=["a"])
    table = lake.table("db.t")
    table.create_tag("two", 2)
    table.rollback_to(snapshot_id=3)
    assert newest_of(server) == 5 and ids(lake) == [1, 2, 3]
    table.rollback_to(tag="two")
    assert newest_of(server) == 6 and ids(lake) == [1, 2]
    write(lake, id=[9], c=["b"])
    assert newest_of(server) == 7 and ids(lake) == [1, 2, 9]


def test_a_branch_is_made_written_and_merged_by_the_server(lake: Lake, server: RestServer) -> None:
    lake.sql(KEYED)
    write(lake, id=[1], c=["a"])
    table = lake.table("db.t")
    table.create_tag("one")
    table.create_branch("dev", tag="one")
    assert told(server, "t/branches")["branches"] == ["dev"] and list(table.branches()) == ["dev"]
    write(lake, id=[2], c=["b"])
    write(lake, id=[3], c=["b"])
    dev = lake.table("db.t").branch("dev")
    dev.write(pa.table({"id": pa.array([9], pa.int32()), "c": ["z"]}))
    assert (newest_of(server), newest_of(server, "t$branch_dev")) == (3, 2)
    assert sorted(dev.scan().to_arrow()["id"].to_pylist()) == [1, 9] and ids(lake) == [1, 2, 3]
    assert lake.list_tables() == ["db.t"]
    lake.sql("call sys.fast_forward('db.t', 'dev')")
    assert newest_of(server) == 4 and ids(lake) == [1, 9]
    write(lake, id=[4], c=["b"])
    assert newest_of(server) == 5 and ids(lake) == [1, 4, 9]
    lake.sql("call sys.delete_branch('db.t', 'dev')")
    assert told(server, "t/branches")["branches"] in ([], None) and not table.branches()
    assert ids(lake) == [1, 4, 9]


def test_unsupported_branch_operations_of_the_server_are_reported(lake: Lake) -> None:
    lake.sql(KEYED)
    write(lake, id=[1], c=["a"])
    table = lake.table("db.t")
    with pytest.raises(UnsupportedFeature, match="from tags only: .* snapshot 1"):
        table.create_branch("b", snapshot_id=1)
    with pytest.raises(NotFound):
        table.create_branch("b", tag="none")
    table.create_branch("empty")
    with pytest.raises(AlreadyExists, match="branch 'empty' exists"):
        table.create_branch("empty")
    with pytest.raises(InvalidRequest, match="branch 'empty' has no snapshot"):
        table.fast_forward("empty")
    with pytest.raises(NotFound, match="has no branch 'mepty', did you mean 'empty'"):
        table.delete_branch("mepty")


def test_keeping_a_table_goes_through_no_other_way(lake: Lake, server: RestServer) -> None:
    lake.sql(KEYED)
    for number in range(1, 5):
        write(lake, id=[number, number + 1], c=["a", "b"])
    lake.table("db.t").analyze()
    lake.table("db.t").expire_snapshots(retain_max=2)
    lake.table("db.t").truncate()
    write(lake, id=[7], c=["z"])
    snapshot = told(server, "t/snapshot")["snapshot"]
    assert (snapshot["snapshot"]["id"], snapshot["recordCount"]) == (7, 1) and ids(lake) == [7]


CHANGES: list[list[SchemaChange]] = [
    [AddColumn(("x",), INT), AddColumn(("y",), STRING, "the y", FIRST), AddColumn(("z",), BIGINT, None, after("n"))],
    [AddColumn(("w",), INT, None, before("n")), AddColumn(("v",), INT, None, LAST)],
    [AddColumn(("r",), parse_type({"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]}))],
    [AddColumn(("r", "b"), STRING, "inside"), ChangeType(("r", "a"), BIGINT)],
    [RenameColumn(("r", "b"), "bb"), ChangeComment(("r", "a"), "the a")],
    [DropColumn(("r", "a"))],
    [RenameColumn(("x",), "xx"), DropColumn(("gone",), if_exists=True)],
    [ChangeType(("n",), BIGINT), ChangeComment(("n",), "counts")],
    [ChangeType(("z",), parse_type("DECIMAL(21, 2)"), keep_nullable=True)],
    [ChangePosition(("y",), LAST)],
    [ChangePosition(("y",), FIRST), ChangePosition(("n",), after("y")), ChangePosition(("id",), before("y"))],
    [SetOption("snapshot.num-retained.min", "3"), ChangeDefault(("n",), "7"), ChangeTableComment("all")],
    [RemoveOption("snapshot.num-retained.min"), ChangeTableComment(None), ChangeComment(("n",), None)],
    [SetOption("alter-column-null-to-not-null.disabled", "false")],
    [ChangeNullability(("xx",), False)],
    [ChangeNullability(("xx",), True), DropColumn(("xx",)), AddColumn(("xx",), STRING)],
]


def test_the_server_makes_of_every_change_what_the_files_would_have(server: RestServer, tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "warehouse"), None, server.options)
    twin = FilesystemCatalog(str(tmp_path / "twin"), LocalFileIO())
    table = Identifier("db", "t")
    for one in (catalog, twin):
        one.create_database("db")
        one.create_table(table, new_schema([("id", BIGINT, None), ("n", INT, None)], ["id"], [], {"bucket": "1"}))

    def comparable(schema: TableSchema) -> TableSchema:
        return replace(schema, time_millis=0)

    for changes in CHANGES:
        assert comparable(catalog.alter_table(table, changes).schema) == comparable(
            twin.alter_table(table, changes).schema
        )
    assert catalog.load_table(table).schema.id == len(CHANGES)


def test_an_unreachable_server_and_a_refused_login_are_distinct_errors(
    lake: Lake, server: RestServer, tmp_path: Path
) -> None:
    lake.sql(KEYED)
    with pytest.raises(InvalidOption, match="credentials") as raised:
        lake_of(server, tmp_path, **{"catalog.token": "hush-of-another"}).list_tables()
    assert "hush" not in f"{raised.value!r} {raised.value.__context__!r}"
    with pytest.raises((NotFound, InvalidRequest, Unavailable)):
        lake_of(server, tmp_path, **{"catalog.warehouse": "pond"}).list_tables()
    server.stop()
    with pytest.raises(Unavailable, match="cannot be reached") as away:
        lake.list_tables()
    assert away.value.retriable and server.token not in str(away.value)


def test_many_names_come_in_pages(lake: Lake, server: RestServer, tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "warehouse"), None, server.options)
    catalog.create_database("db")
    for number in range(105):
        catalog.create_table(Identifier("db", f"t{number:03}"), new_schema([("id", INT, None)]))
    assert catalog.list_tables("db") == [f"t{number:03}" for number in range(105)]


def test_names_with_signs_of_their_own_are_found(server: RestServer, tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "warehouse"), None, server.options)
    for name in ("a b", "a+b", "a%20b", "ä&ö=ü", "a?b#c", "50%"):
        catalog.create_database(name)
        catalog.create_table(Identifier(name, name), new_schema([("id", INT, None)]))
        assert catalog.list_tables(name) == [name]
        assert catalog.load_table(Identifier(name, name)).path.endswith(f"/{name}.db/{name}")
        catalog.drop_table(Identifier(name, name))
        assert catalog.list_tables(name) == []


def test_a_log_and_its_seals(lake: Lake, server: RestServer) -> None:
    lake.sql(KEYED.replace("'bucket' = '2'", "'bucket' = '2', 'log-store.enabled' = 'true'"))
    write(lake, id=[1, 2], c=["a", "b"])
    assert ids(lake) == [1, 2]
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None and newest_of(server) == newest.id


def test_spark_commits_through_the_server(lake: Lake, server: RestServer) -> None:
    lake.sql(KEYED)
    lake.sql("insert into db.t values (1, 'a'), (2, 'b')")
    frame = lake.spark.range(3, 6).selectExpr("cast(id as int) id", "'c' c")
    frame.write.format("lakelog").mode("append").save("db.t")
    path = lake.table("db.t").path
    frame.selectExpr("id + 10 id", "c").write.format("lakelog").mode("append").save(path)
    assert ids(lake) == [1, 2, 3, 4, 5, 13, 14, 15]
    assert lake.spark.read.format("lakelog").load("db.t").count() == 8
    snapshot = told(server, "t/snapshot")["snapshot"]
    assert (snapshot["snapshot"]["id"], snapshot["recordCount"]) == (3, 8)

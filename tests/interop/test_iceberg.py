"""pyiceberg, Iceberg in Spark, and DuckDB read each table by its Iceberg metadata as lakelog reads it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboards import TOKEN, running_dashboard
from golden.test_golden_scan import DATA
from golden.test_golden_scan import TABLES as GOLDEN
from iceberg_tables import TABLES, Rows, make, numbers, open_lake, plain, write
from iceberg_vector_tables import ON, VECTOR_TABLES, VERSION_3, delete_rows
from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

HERE = Path(__file__).parent
PYICEBERG = HERE.parents[1] / ".venv-pyiceberg" / "bin" / "python"
LEFT_OUT = "lakelog-files-left-out"

Ask = Callable[..., tuple[dict[str, Any], Rows]]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks pyiceberg, in a Python of its own, for rows of a table."""
    command = [os.environ.get("LAKELOG_PYICEBERG", str(PYICEBERG)), str(HERE / "read_with_pyiceberg.py")]
    with reader(command, tmp_path_factory.mktemp("pyiceberg") / "rows.arrow") as read:
        yield read


@pytest.fixture(scope="session")
def ask_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks Iceberg's reader in the newest Spark that it has a jar for."""
    sys.path.append(str(HERE.parents[1] / "benchmarks"))
    from environments import ENVIRONMENTS

    (jar,) = ENVIRONMENTS["iceberg"].jars()
    command = [ENVIRONMENTS["iceberg"].python(), str(HERE / "read_with_spark_iceberg.py"), str(jar)]
    with reader(command, tmp_path_factory.mktemp("spark") / "rows") as read:
        yield read


@contextlib.contextmanager
def reader(command: list[str], out: Path) -> Iterator[Ask]:
    # the reader has its own packages, and lakelog is not one of them
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )

    def read(table: Table, **more: Any) -> tuple[dict[str, Any], Rows]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"table": table.path, "out": str(out), **more}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert "error" not in answer, answer
        if out.is_dir():
            return answer, pq.read_table(out).to_pylist()
        with pa.OSFile(str(out)) as file:
            return answer, pa.ipc.open_file(file).read_all().to_pylist()

    yield read
    process.stdin.close()  # type: ignore[union-attr]
    process.wait(120)


@pytest.mark.parametrize("engine", ["pyiceberg", "Iceberg in Spark"])
@pytest.mark.parametrize("fill", [*TABLES, *VECTOR_TABLES], ids=lambda fill: fill.__name__)
def test_the_table_its_tags_and_its_snapshots_are_read(
    fill: Callable[[Lake], Table],
    engine: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    ask: Ask = request.getfixturevalue("ask" if engine == "pyiceberg" else "ask_spark")
    table = fill(open_lake(tmp_path))
    answer, rows = ask(table)
    newest = table.latest_snapshot()
    assert newest is not None
    assert answer["current"] == newest.id
    assert plain(rows) == plain(table.scan().to_arrow().to_pylist())
    assert answer["tags"] == {tag.name: tag.snapshot.id for tag in table.tags()}
    for tag in table.tags():
        assert plain(ask(table, tag=tag.name)[1]) == plain(table.scan(tag=tag.name).to_arrow().to_pylist())
    if not table.primary_keys or fill in VECTOR_TABLES:
        for at in set(answer["snapshots"]) & set(table.logical.store.snapshots.ids()):
            assert plain(ask(table, snapshot=at)[1]) == plain(table.scan(snapshot_id=at).to_arrow().to_pylist())
    for text in FILTERS.get(fill.__name__, ()):
        found = ask(table, filter=text)[1]
        assert plain(found) == plain(table.scan(filter=text).to_arrow().to_pylist()), text
    record_property("agrees", engine)


@pytest.mark.parametrize("fill", [*TABLES, *VECTOR_TABLES], ids=lambda fill: fill.__name__)
def test_duckdb_reads_the_table(
    fill: Callable[[Lake], Table], ask: Ask, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    table = fill(open_lake(tmp_path))
    assert plain(ask(table, duckdb=True)[1]) == plain(table.scan().to_arrow().to_pylist())
    for text in FILTERS.get(fill.__name__, ()):
        found = ask(table, duckdb=True, filter=text)[1]
        assert plain(found) == plain(table.scan(filter=text).to_arrow().to_pylist()), text
    record_property("agrees", "DuckDB")


@pytest.mark.parametrize("has_vectors", [False, True], ids=["version 2", "version 3"])
@pytest.mark.parametrize("engine", ["pyiceberg", "Iceberg in Spark"])
def test_the_catalog_of_a_dashboard_is_read(
    engine: str, has_vectors: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ask: Ask = request.getfixturevalue("ask" if engine == "pyiceberg" else "ask_spark")
    lake = open_lake(tmp_path)
    table = make(lake, "id int, name string", options=ON if has_vectors else "")
    lake.sql("create table db.plain (id int)")
    with running_dashboard(tmp_path / "warehouse", token=TOKEN) as dashboard:
        rest = {"rest": f"{dashboard.address}/iceberg", "token": TOKEN}
        for first in (0, 5):
            write(table, *numbers(first, 3))
            if has_vectors:
                delete_rows(table.logical, first)
            assert plain(ask(table, **rest)[1]) == plain(table.scan().to_arrow().to_pylist())


REFUSED = {
    "deletion_vectors": (InvalidOption, "'metadata.iceberg.format-version' = '3'"),
    "sp_append_dv": (InvalidOption, "'metadata.iceberg.format-version' = '3'"),
    "types_avro": (UnsupportedFeature, "column 'tm' of type TIME"),
    "types_orc": (UnsupportedFeature, "column 'tm' of type TIME"),
    "types_parquet": (UnsupportedFeature, "column 'tm' of type TIME"),
    "variants": (UnsupportedFeature, "of type VARIANT"),
}
"""Tables written by Paimon that have no Iceberg metadata, and the reason that ALTER TABLE gives."""


WITHOUT_FIELD_IDS = ("sp_evolve", "sp_pk")
"""Tables with files of an older Paimon, whose columns have no ids."""


def asking(engine: str, request: pytest.FixtureRequest) -> Ask:
    """Reads a table with pyiceberg, or with Iceberg in Spark."""
    ask: Ask = request.getfixturevalue("ask" if engine == "pyiceberg" else "ask_spark")
    return ask


def golden_lake(name: str, directory: Path) -> Lake:
    """A lake with a copy of a table that Paimon has written."""
    shutil.copytree(DATA / name, directory / "warehouse")
    return open_lake(directory)


@pytest.mark.parametrize(
    ("name", "engine"),
    [*((name, "pyiceberg") for name in GOLDEN), *((name, "Iceberg in Spark") for name in WITHOUT_FIELD_IDS)],
)
def test_a_table_written_by_paimon_is_read_or_refused_with_the_reason(
    name: str,
    engine: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    ask, lake = asking(engine, request), golden_lake(name, tmp_path)
    table = lake.table(f"g.{name}")
    before = plain(table.scan().to_arrow().to_pylist())
    switch = f"alter table g.{name} set tblproperties ('metadata.iceberg.storage' = 'table-location')"
    if name in REFUSED:
        kind, reason = REFUSED[name]
        with pytest.raises(kind, match=reason):
            lake.sql(switch)
        return
    lake.sql(switch)
    table = lake.table(f"g.{name}")
    table.compact()
    table.create_tag("golden")
    answer, rows = ask(table)
    assert plain(rows) == plain(table.scan().to_arrow().to_pylist()) == before
    assert answer["tags"]["golden"] == answer["current"]
    record_property("agrees", engine)


@pytest.mark.parametrize("engine", ["pyiceberg", "Iceberg in Spark"])
@pytest.mark.parametrize("name", ["deletion_vectors", "sp_append_dv"])
def test_deletion_vectors_written_by_paimon_are_read(
    name: str,
    engine: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    ask, lake = asking(engine, request), golden_lake(name, tmp_path)
    lake.sql(f"alter table g.{name} set tblproperties ('metadata.iceberg.storage' = 'table-location', {VERSION_3})")
    table = lake.table(f"g.{name}")
    table.create_tag("golden")
    rows = ask(table, tag="golden")[1]
    assert plain(rows) == plain(table.scan().to_arrow().to_pylist())
    record_property("agrees", engine)


def test_rows_have_the_same_numbers_in_later_snapshots(ask_spark: Ask, tmp_path: Path) -> None:
    table = make(open_lake(tmp_path), "id int, name string", options=f"{ON}, 'manifest.merge-min-count' = '3'")
    seen: dict[int, int] = {}
    for n in range(5):
        write(table, *numbers(10 * n, 10))
        delete_rows(table.logical, 10 * n + 1)
        rows = ask_spark(table, columns=["id", "_row_id"])[1]
        found = {row["id"]: row["_row_id"] for row in rows}
        assert len(set(found.values())) == len(found) == 9 * (n + 1)
        assert seen.items() <= found.items()
        seen = found


def test_a_name_of_two_columns_waits_for_files_with_field_ids(ask: Ask, tmp_path: Path) -> None:
    shutil.copytree(DATA / "sp_evolve", tmp_path / "warehouse")
    lake = open_lake(tmp_path)
    lake.sql("alter table g.sp_evolve set tblproperties ('metadata.iceberg.storage' = 'table-location')")
    lake.table("g.sp_evolve").create_tag("before")
    before = plain(ask(lake.table("g.sp_evolve"))[1])
    lake.sql("alter table g.sp_evolve drop column a")
    lake.sql("alter table g.sp_evolve add column a string")
    table = lake.table("g.sp_evolve")
    write(table, {"id": 90, "a": "new", "p": "p1", "c": 0.5})
    assert plain(ask(table)[1]) == before
    write(table, *table.scan().to_arrow().to_pylist(), overwrite=True)
    assert plain(ask(table)[1]) == plain(table.scan().to_arrow().to_pylist())
    assert plain(ask(table, tag="before")[1]) == before


FILTERS = {
    "every_type": (
        "id < 7",
        "tiny = 127",
        "text = 'null'",
        "day < '1900-01-01'",
        "num is null",
        "price > 12",
        "big > 5",
    ),
    "partitions": ("kind is null", "day = '2024-02-29'", "cost = -1.50", "small = -3 and id > 2", "yes = true"),
    "evolution": ("id > 3", "gone is null", "title = 'x'", "real < 1"),
    "not_a_number": ("real = 1.0", "wide = 0", "real is null", "wide < 5"),
    "keyed": ("id = 45", "name = 'newer'"),
    "deletes": ("id in (3, 4, 5, 46)", "id > 30"),
    "keyed_vectors": ("id = 145", "name = 'newest'", "id < 25"),
    "partitioned_vectors": ("day = '2024-01-03'", "kind is null and id < 9", "id = 5"),
}

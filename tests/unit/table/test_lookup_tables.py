"""Tables whose compactions look up what they replace, as a user has them: written, altered, read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import Lake, connect
from lakelog.errors import InvalidOption
from lakelog.lake.table import Table
from lakelog.spec.schema_change import RemoveOption, SetOption


@pytest.fixture
def lake(tmp_path) -> Lake:
    opened = connect(warehouse=str(tmp_path / "warehouse"))
    opened.sql("create database db")
    return opened


def create(lake: Lake, properties: str = "") -> Table:
    more = f", {properties}" if properties else ""
    lake.sql(f"create table db.t (k int, v string, primary key (k)) using lakelog tblproperties ('bucket' = '2'{more})")
    return lake.table("db.t")


def write(table: Table, *rows: tuple[int, str], kind: str = "+I") -> None:
    columns = {
        "k": pa.array([k for k, _ in rows], pa.int32()),
        "v": [v for _, v in rows],
        "_row_kind": [kind] * len(rows),
    }
    with table.writer() as writer:
        writer.write(pa.table(columns))


def read(table: Table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


VECTORS = "'deletion-vectors.enabled' = 'true'"


@pytest.mark.parametrize("log", ["false", "true"])
@pytest.mark.parametrize(
    "more", ["", "'deletion-vectors.merge-on-read' = 'true'", "'index-file-in-data-file-dir' = 'true'"]
)
def test_rows_are_seen_when_their_writer_is_closed(lake, log, more) -> None:
    table = create(lake, f"{VECTORS}, 'log-store.enabled' = '{log}'" + (f", {more}" if more else ""))
    write(table, *((k, "a") for k in range(50)))
    write(table, (3, "b"), (60, "b"))
    write(table, (4, ""), kind="-D")
    expected = {k: "a" for k in range(50) if k != 4} | {3: "b", 60: "b"}
    assert read(table) == expected
    table.compact(full=True)
    assert read(table) == expected
    assert not table.compact(full=True)


def test_vectors_are_switched_on_and_off_after_a_full_compaction(lake) -> None:
    table = create(lake)
    write(table, *((k, "a") for k in range(50)))
    write(table, (3, "b"))
    with pytest.raises(InvalidOption, match="compact the table fully"):
        table.alter(SetOption("deletion-vectors.enabled", "true"))
    table.compact(full=True)
    table.alter(SetOption("deletion-vectors.modifiable", "true"), SetOption("deletion-vectors.enabled", "true"))
    table = lake.table("db.t")
    write(table, (4, "c"))
    expected = dict.fromkeys(range(50), "a") | {3: "b", 4: "c"}
    assert read(table) == expected
    table.alter(RemoveOption("deletion-vectors.enabled"))
    table = lake.table("db.t")
    assert read(table) == expected
    for v in "defghi":
        write(table, (5, v))
    assert read(table) == expected | {5: "i"}
    table.compact(full=True)
    assert read(table) == expected | {5: "i"}
    assert not table.compact(full=True)


def test_a_write_is_done_though_the_compaction_after_it_fails(lake, monkeypatch, caplog) -> None:
    table = create(lake, "'changelog-producer' = 'lookup'")

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a fault in the compaction")

    monkeypatch.setattr("lakelog.table.maintenance.run_tasks", fail)
    write(table, (1, "a"))
    assert read(table) == {1: "a"}
    assert "a fault in the compaction" in caplog.text

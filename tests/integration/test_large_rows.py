"""A row that is larger than the broker takes: the writer's error, and nothing of its write is left."""

from __future__ import annotations

import pyarrow as pa
import pytest

from debezium_consumer import folded
from lakelog import connect
from lakelog.errors import InvalidRequest
from lakelog.lake.table import Table


@pytest.fixture
def table(tmp_path, kafka) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, v string, primary key (id)) tblproperties "
        f"('log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}')"
    )
    return lake.table("db.t")


def write(table: Table, ids: list[int], *values: str) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "v": list(values)}))


def stores(table: Table) -> list[tuple[int, str]]:
    """The rows, which files, a plain consumer and a read of both stores find."""
    found = [table.scan(options={"read.mode": mode}).to_arrow().to_pylist() for mode in ("file", "union")]
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    found.append(list(folded(values, ["id"]).values()))
    rows = [sorted((r["id"], r["v"]) for r in each) for each in found]
    assert rows == [rows[0]] * 3
    return rows[0]


@pytest.mark.parametrize("size", [1_500_000, 20_000_000])
def test_a_row_above_the_limit_of_the_broker_is_the_writers_error_and_leaves_nothing(table: Table, size: int) -> None:
    write(table, [1], "before")
    assert table.log is not None
    with pytest.raises(InvalidRequest, match=rf"a row is larger.*'{table.log.topic}'.*max\.message\.bytes") as refused:
        write(table, [1, 2, 3], "neighbour", "x" * size, "neighbour")
    assert "reached" not in str(refused.value)
    assert table.scan().to_arrow().column("v").to_pylist() == ["before"]
    write(table, [4], "next")
    assert stores(table) == [(1, "before"), (4, "next")]

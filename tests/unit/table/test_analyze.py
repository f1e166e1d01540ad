from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt, InvalidSchema
from lakelog.paimon.metadata.table_statistics import ColumnStatistics, TableStatistics

COLUMNS = """id int, ok boolean, name string, price decimal(8, 2), day date, at timestamp(3), micro timestamp(6),
score double, raw binary, tags array<string>, primary key (id)"""


@pytest.fixture
def table(tmp_path):
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql(f"create table db.t ({COLUMNS}) using lakelog")
        yield lake.table("db.t")


def write(table, ids, **columns) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), **columns}), missing="null")


def test_statistics_of_the_merged_rows_are_written_and_read_back(table) -> None:
    write(table, [1, 2, 3], name=["old", "old", "old"])
    write(
        table,
        [1, 2, 3],
        ok=[True, None, False],
        name=["é", "ab", None],
        price=[Decimal("1.50"), Decimal("-2.00"), Decimal("1.50")],
        day=[dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
        at=pa.array([0, 1500, -1], pa.timestamp("ms")),
        micro=pa.array([0, 1, None], pa.timestamp("us")),
        score=[1.0, float("nan"), float("-inf")],
        raw=[b"", b"abc", None],
    )
    made = table.analyze()
    assert made.commit_kind == "ANALYZE"
    found = table.statistics()
    assert (found.snapshot_id, found.schema_id, found.row_count) == (2, 0, 3)
    assert found.columns == {
        "id": ColumnStatistics(0, 3, "1", "3", 0, 4, 4),
        "ok": ColumnStatistics(1, 2, "false", "true", 1, 1, 1),
        "name": ColumnStatistics(2, 2, None, None, 1, 2, 2),
        "price": ColumnStatistics(3, 2, "-2.00", "1.50", 0, 8, 8),
        "day": ColumnStatistics(4, 2, "-1", "19782", 1, 4, 4),
        "at": ColumnStatistics(5, 3, "1969-12-31 23:59:59.999", "1970-01-01 00:00:01.500", 0, 8, 8),
        "micro": ColumnStatistics(6, 2, "1970-01-01 00:00:00.000000", "1970-01-01 00:00:00.000001", 1, 8, 8),
        "score": ColumnStatistics(7, 3, "-Infinity", "NaN", 0, 8, 8),
        "raw": ColumnStatistics(8, 2, None, None, 1, 2, 3),
    }
    write(table, [9])
    assert table.statistics() == found, "later commits carry it on"


def test_chosen_columns_and_none_and_an_empty_table(table) -> None:
    assert table.analyze() is None and table.statistics() is None
    write(table, [1, 2])
    table.analyze(["id"])
    assert list(table.statistics().columns) == ["id"]
    table.analyze(())
    assert table.statistics().columns == {} and table.statistics().row_count == 2
    with pytest.raises(InvalidSchema, match="'nme'"):
        table.analyze(["nme"])


def test_many_distinct_values_are_estimated(table) -> None:
    write(table, range(200_000))
    table.analyze(["id"])
    assert table.statistics().columns["id"].distinct_count == pytest.approx(200_000, rel=0.03)


def test_a_statistics_file_of_another_engine() -> None:
    text = b'{"snapshotId": 4, "schemaId": 1, "colStats": {"a": {"colId": 7, "new": 1}}, "more": {}}'
    assert TableStatistics.from_json(text) == TableStatistics(4, 1, None, None, {"a": ColumnStatistics(7)})
    with pytest.raises(Corrupt):
        TableStatistics.from_json(b"{}")

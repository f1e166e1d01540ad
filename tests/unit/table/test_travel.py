"""States of the past, of tables whose options name columns that have changed since."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import connect


@pytest.fixture
def lake(tmp_path):
    with connect(warehouse=str(tmp_path)) as opened:
        opened.sql("create database d")
        yield opened


def made(lake, columns: str, options: str, *rows: dict[str, int]):
    lake.sql(f"create table d.t (id int, {columns}, primary key (id)) tblproperties ('bucket' = '1', {options})")
    for row in rows:
        lake.table("d.t").write(pa.table({name: pa.array([value], pa.int32()) for name, value in row.items()}))


def state(lake, snapshot_id: int) -> list[dict[str, int]]:
    return lake.table("d.t").scan(snapshot_id=snapshot_id).to_arrow().to_pylist()


def test_a_sequence_field_that_was_renamed_since(lake) -> None:
    made(lake, "v int", "'sequence.field' = 'v'", {"id": 1, "v": 3}, {"id": 1, "v": 1})
    lake.sql("alter table d.t rename column v to w")
    assert state(lake, 2) == [{"id": 1, "v": 3}]


def test_columns_that_have_swapped_their_names_since(lake) -> None:
    rows = {"id": 1, "a": 2, "b": 1}, {"id": 1, "a": 1, "b": 2}
    made(lake, "a int, b int", "'sequence.field' = 'a'", *rows)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        lake.sql(f"alter table d.t rename column {old} to {new}")
    assert state(lake, 2) == [rows[0]]


def test_a_sequence_group_of_columns_that_were_added_since(lake) -> None:
    made(lake, "a int", "'merge-engine' = 'partial-update'", {"id": 1, "a": 1}, {"id": 1, "a": 2})
    lake.sql("alter table d.t add column (g int, b int)")
    lake.sql("alter table d.t set tblproperties ('fields.g.sequence-group' = 'b')")
    assert state(lake, 2) == [{"id": 1, "a": 2}]


def test_a_column_with_a_function_that_was_dropped_since(lake) -> None:
    options = "'merge-engine' = 'aggregation', 'fields.a.aggregate-function' = 'sum'"
    made(lake, "a int, b int", options, {"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 2, "b": 1})
    lake.sql("alter table d.t unset tblproperties ('fields.a.aggregate-function')")
    lake.sql("alter table d.t drop column a")
    assert state(lake, 2) == [{"id": 1, "a": 3, "b": 1}]

"""Metadata columns and ``input_file_name()`` in Spark's SQL, where few rows would be read by the driver."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.errors import UnsupportedStatement


@pytest.fixture
def table(lake: Lake) -> Lake:
    lake.sql("create table db.t (id int, p string) using lakelog partitioned by (p)")
    lake.sql("insert into db.t values (1, 'x'), (2, 'x'), (3, 'y')")
    return lake


def test_a_query_reads_the_places_of_rows(table: Lake) -> None:
    text = """
        select t.*, t.__paimon_partition.p = p as same, t._metadata.row_index = __paimon_row_index as also,
               f.file_path = input_file_name as listed
        from (
            select *, input_file_name() as input_file_name, __paimon_partition, __paimon_row_index, _metadata from db.t
        ) t
        join db.t$files f on f.file_path = t.input_file_name order by id
    """
    found = table.sql(text.replace("t.*", "t.id, t.p")).to_arrow().to_pylist()
    assert found == [
        {"id": i, "p": p, "same": True, "also": True, "listed": True} for i, p in ((1, "x"), (2, "x"), (3, "y"))
    ]
    assert table.sql("select *, __paimon_bucket from db.t").columns == ["id", "p", "__paimon_bucket"]
    files = table.sql("select input_file_name(), count(*) as n from db.t group by input_file_name()")
    assert sorted(files.to_arrow()["n"].to_pylist()) == [1, 2] and files.columns[0] == "input_file_name()"
    with pytest.raises(UnsupportedStatement, match="read __paimon_file_path in the SELECT"):
        table.sql("select input_file_name() from (select * from db.t)")


def test_a_change_finds_rows_by_their_places(table: Lake) -> None:
    table.sql("update db.t set id = 10 where __paimon_partition.p = 'x' and __paimon_row_index = 0")
    table.sql("delete from db.t where input_file_name() like '%p=y%'")
    assert sorted(table.table("db.t").scan().to_arrow()["id"].to_pylist()) == [2, 10]

"""Mistakes in statements without Spark: each is named with the table, the value and the way out; none needs Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import InternalError, LakelogError, NotInstalled

MISTAKES = [
    # words of statements
    ("selct * from db.t", "'selct' begins no statement, did you mean 'SELECT'"),
    ("slect id from db.t", "did you mean 'SELECT'"),
    ("delet from db.t", "did you mean 'DELETE'"),
    ("updat db.t set n = 1", "did you mean 'UPDATE'"),
    ("inser into db.t values (1)", "did you mean 'INSERT'"),
    ("creat table db.x (id int)", "did you mean 'CREATE'"),
    ("drop tabel db.t", "did you mean 'DROP TABLE'"),
    ("shwo tables", "did you mean 'SHOW'"),
    ("select * form db.t", "line 1, column 15: this query cannot be parsed from here"),
    ("select id from db.t wher id = 1", "cannot be parsed from here"),
    ("select id from db.t where id = = 1", "cannot be parsed from here"),
    ("select (id from db.t", "this '(' is never closed"),
    ("select id from db.t where name = 'a", "this string is not closed"),
    ("select id,, name from db.t", "line 1, column 11: a value is missing before this ','"),
    ("select id, from db.t", "line 1, column 10: a value is missing after this ','"),
    # names of tables
    ("select * from db.tt", "'db.tt' does not exist in database 'db', did you mean 't'"),
    ("select * from d.t", "there is no database 'd', did you mean 'db'"),
    ("insert into db.tt values (1, 'a', 1)", "did you mean 't'"),
    ("delete from db.tt", "did you mean 't'"),
    ("update db.tt set n = 1", "did you mean 't'"),
    ("select * from db.t$snapshot", "did you mean 'snapshots'"),
    # names of columns
    (
        "select nmae from db.t",
        "line 1, column 8: the query has no column 'nmae', did you mean 'name'? Columns of t: id",
    ),
    ("select t.nmae from db.t", "no column 'nmae', did you mean 'name'"),
    ("select x.name from db.t", "the query has no relation 'x'. Relations: t"),
    ("select db.t.nmae from db.t", "'nmae'"),
    ("select id from db.t where nmae = 'a'", "did you mean 'name'"),
    ("select id from db.t order by nmae", "did you mean 'name'"),
    ("select nmae, count(*) from db.t group by nmae", "did you mean 'name'"),
    ("with q as (select id from db.t) select name from q", "no column 'name'. Columns of q: id"),
    ("select a.id from db.t a join db.t b on a.id = b.idd", "did you mean 'id'"),
    ("select id from db.t where id in (select idd from db.t)", "did you mean 'id'"),
    ("insert into db.t (idd) values (1)", "has no column 'idd', did you mean 'id'"),
    ("update db.t set nmae = 'x'", "has no column 'nmae', did you mean 'name'"),
    ("update db.t set name = Bergen", "there is no column 'Bergen'. Columns of t: id, name, n. Write a text in quotes"),
    ("update db.t set n = 1 where idd = 2", "did you mean 'id'"),
    ("delete from db.t where foo = 1", "DELETE FROM db.t: there is no column 'foo'"),
    ("delete from db.t where x.id = 1", "there is no relation 'x'"),
    ("select cuont(*) from db.t", "function 'cuont' is not available without Spark, did you mean 'count'"),
    ("select uper(name) from db.t", "did you mean 'upper'"),
    # values
    ("insert into db.t values (1, 'a')", "has 2 values, and there are 3 columns: id, name, n. Name the columns"),
    (
        "insert into db.t values (1, 'a', 1), (2, 'b', 2, 3)",
        "column 38: a row of INSERT INTO db.t has 4 values",
    ),
    ("insert into db.t (id) values (1, 2)", "has 2 values, and there are 1 columns: id"),
    ("insert into db.t select 1, 'a'", "the query has 2 columns, and table"),
    ("insert into db.t select 3000000000, 'a', 3000000000", "column 'n' of table"),
    ("select 1 / 0 from db.t", "division by zero"),
    ("select * from db.t version as of 99", "99"),
    ("select * from db.t timestamp as of '2001-01-01 00:00:00'", "2001-01-01"),
    ("select * from db.t /*+ OPTIONS('scan.snapshto-id' = '1') */", "scan.snapshot-id"),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", "/nowhere")
        patched.setattr("pyspark.SparkContext._gateway", None)
        with lakelog.connect(tmp_path_factory.mktemp("mistakes")) as opened:
            opened.sql("create table db.t (id bigint, name string, n int, primary key (id))")
            opened.sql("insert into db.t values (1, 'a', 1)")
            yield opened


@pytest.mark.parametrize(("statement", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_way_out(lake: Lake, statement: str, said: str) -> None:
    with pytest.raises(LakelogError) as told:
        lake.sql(statement)
    assert not isinstance(told.value, NotInstalled | InternalError), told.value
    assert said in str(told.value)
    assert str(lake.table("db.t").logical.path) not in str(told.value)
    assert lake.sql("select count(*) from db.t").to_arrow().to_pylist() == [{"count(1)": 1}]


def test_a_merge_names_the_aliases_of_its_condition(lake: Lake) -> None:
    rows = pa.table({"id": [1]})
    for on in ("target.id = source.id", "t.idd = s.id"):
        with pytest.raises(LakelogError, match="there is no (relation 'target'. Relations: t, s|column 'idd')"):
            lake.table("db.t").merge(rows, on).when_matched_delete().execute()

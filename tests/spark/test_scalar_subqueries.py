"""Scalar subqueries over one table of a statement are read once, with the answers of the same query over plain rows."""

from __future__ import annotations

import pytest

CASES = (
    "case when (select count(*) from {t} where q between 1 and 4) > 2 then (select avg(x) from {t} where q between 1 "
    "and 4) else (select sum(x) from {t} s where s.q > 7) end as a",
    "(select max(name) from {t} where name like 'n%' and q is not null) as a, (select min(x) from {t}) as b",
    "(select sum(x) from {t} where q > 100) as a, (select count(x) from {t} where q > 100) as b",
    "(select sum(x) - min(x) from {t} where q <> 3) as a, (select count(q) + 1 from {t} where not q = 3) as b",
)


@pytest.mark.parametrize("compacted", [False, True])
def test_each_answer_is_that_over_plain_rows_and_the_table_is_read_once(lake, spark, compacted: bool) -> None:
    lake.sql(
        "create table db.t (id int, q int, x decimal(9, 2), name string, primary key (id)) using lakelog "
        "tblproperties ('write-only' = 'true')"
    )
    for first in (0, 5):
        lake.sql(
            f"insert into db.t select id, if(id % 5 = 0, null, id % 10), id * 1.5 + {first}, "
            f"if(id % 3 = 0, concat('n', id), 'x') from (select int(id) as id from range({first}, {first} + 40000))"
        )
    if compacted:
        lake.table("db.t").compact(full=True)
    lake.sql("select * from db.t").localCheckpoint().createOrReplaceTempView("plain")
    for case in CASES:
        result = lake.sql(f"select {case.format(t='db.t')}")
        assert result.collect() == spark.sql(f"select {case.format(t='plain')}").collect()
        final = str(result._jdf.queryExecution().executedPlan().toString()).partition("Initial Plan")[0]
        assert final.count("FileScan parquet") <= 1  # none if no file may have such rows

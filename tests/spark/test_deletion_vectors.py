"""Tables with deletion vectors in Spark: written, compacted as a job, read natively."""

from __future__ import annotations

from lakelog import Lake


def test_spark_reads_what_a_compaction_has_marked(lake: Lake) -> None:
    lake.sql(
        "create table db.t (id int, v string, primary key (id)) using lakelog tblproperties "
        "('bucket' = '2', 'deletion-vectors.enabled' = 'true', 'changelog-producer' = 'lookup')"
    )
    lake.sql("insert into db.t select cast(id as int), 'old' from range(1000)")
    lake.sql("insert into db.t select cast(id as int), 'new' from range(0, 1000, 10)")
    table = lake.table("db.t")
    table.compact(full=False)
    assert lake.table("db.t$table_indexes").scan().to_arrow().num_rows > 0
    found = {row.v: row.n for row in lake.sql("select v, count(*) as n from db.t group by v").collect()}
    assert found == {"old": 900, "new": 100}
    assert lake.sql("select v from db.t where id = 500").collect()[0].v == "new"
    table.compact()
    assert lake.sql("select count(*) as n from db.t where v = 'old'").collect()[0].n == 900

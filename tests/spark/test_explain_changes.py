"""EXPLAIN of INSERT, UPDATE, DELETE and MERGE tells what is written and which read finds it, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from lakelog.errors import NotFound, UnsupportedFeature

LOGS = {
    "plain": "",
    "input": "'log-store.enabled' = 'true', ",
    "changes": "'log-store.enabled' = 'true', 'log.content' = 'changes', ",
}


def told(lake: Lake, text: str) -> tuple[str, str, str]:
    """What EXPLAIN says of the write, of the tables, and Spark's plan."""
    ((whole,),) = lake.sql(f"explain {text}").collect()
    write, _, plan = whole.partition("== Physical Plan ==")
    head, _, tables = write.partition("== Tables ==")
    assert head.startswith("== Write =="), whole
    return head, tables, plan


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A table with a key and one without for each kind of log, of two partitions."""
    rows = {"id": pa.array([1, 2, 1], pa.int32()), "day": pa.array([1, 1, 2], pa.int32()), "v": ["a", "b", "c"]}
    with connect(spark, warehouse=str(tmp_path_factory.mktemp("warehouse"))) as lake:
        for log, options in LOGS.items():
            for kind, key in (("k", ", primary key (id, day)"), ("n", "")):
                buckets = "'bucket' = '2'" if key else "'bucket' = '2', 'bucket-key' = 'id'"
                name = f"db.{kind}_{log}"
                lake.sql(
                    f"create table {name} (id int, day int, v string{key}) partitioned by (day) "
                    f"tblproperties ({options}{buckets})"
                )
                lake.table(name).write(pa.table(rows))
                lake.table(name).seal()
        yield lake


@pytest.fixture
def made(tables: Lake) -> Iterator[Lake]:
    """The tables, whose files stay as they are."""
    names = tables.list_tables("db")
    before = {name: _state(tables, name) for name in names}
    yield tables
    assert {name: _state(tables, name) for name in names} == before, "EXPLAIN has changed a table"


def _state(lake: Lake, name: str) -> list[tuple[str, int]]:
    """The files of a table, its log among them."""
    files = (path for path in Path(lake.table(name).logical.path).rglob("*") if path.is_file())
    return sorted((str(path), path.stat().st_size) for path in files)


@pytest.mark.parametrize("log", LOGS)
def test_an_update_explains_its_table_log_read_and_write(made: Lake, log: str) -> None:
    head, tables, _ = told(made, f"update db.k_{log} set v = 'x' where day = 2 and id = 1")
    assert f"UPDATE of table db.k_{log}, primary key (id, day), partitioned by (day)" in head
    assert "writes: the rows below with their row kinds; reads and compactions merge them by key (deduplicate)" in head
    assert "partitions: those of the rows, buckets: 2 by the hash of (id)" in head
    wanted = {
        "plain": "log: none",
        "input": "receives the rows as they are written (changes: upsert)",
        "changes": "receives the changes of the merged table after the commit",
    }
    assert wanted[log] in head
    assert "skips by: ((day = 2 AND id = 1))" in tables
    assert "reads 1 splits, 1 files" in tables and "day=2/" in tables and "day=1/" not in tables


def test_rows_of_a_table_without_a_key_are_changed_by_files(made: Lake) -> None:
    for text in (
        "update db.n_plain set v = 'x' where day = 2",
        "delete from db.n_changes where day = 2 and v = 'c'",
        "merge into db.n_plain t using (select 1 as id) s on t.id = s.id and t.day = 2 when matched then delete",
    ):
        head, tables, plan = told(made, text)
        assert "new files in place of each data file that has rows of the read below" in head
        assert "Table db.n_" in tables and plan
    head, tables, _ = told(made, "update db.n_plain set v = 'x'")
    assert "in place of each data file, with its other rows" in head and "skips by: nothing" in tables


def test_whole_partitions_are_named_and_not_read(made: Lake) -> None:
    (whole,) = (row["plan"] for row in made.sql("explain delete from db.k_plain where day >= 2").to_pylist())
    assert "a snapshot without the files of whole partitions (1); no row is read" in whole
    assert "partitions: day=2, buckets: 2" in whole and "== Tables ==" not in whole
    head, tables, _ = told(made, "delete from db.k_input where day >= 2")
    assert "with their row kinds" in head and "skips by: ((day >= 2))" in tables


def test_inserts_append_or_replace(made: Lake) -> None:
    head, tables, _ = told(made, "insert into db.n_plain select id, day, v from db.k_plain where id = 2")
    assert "INSERT of table db.n_plain, no primary key" in head and "in addition to those of the table" in head
    assert "Table db.k_plain" in tables and "skips by: (id = 2)" in tables
    head, tables, _ = told(made, "insert into db.k_input values (7, 7, 'x')")
    assert "(deduplicate)" in head and "receives the rows as they are written" in head and not tables
    head, _, _ = told(made, "insert overwrite db.n_changes partition (day = 1) select id, v from db.n_plain")
    assert "in place of the rows of these partitions" in head and "partitions: day = 1" in head
    head, _, _ = told(made, "insert overwrite db.k_plain select * from db.n_plain")
    assert "partitions: all; with 'spark.sql.sources.partitionOverwriteMode' = 'dynamic' those of the rows" in head
    head, _, _ = told(made, "insert overwrite db.k_input values (7, 7, 'x')")
    assert "in place of the rows of these partitions, each with a delete for the log" in head
    head, _, _ = told(made, "insert overwrite db.n_input values (7, 7, 'x')")
    assert "each with a delete for the log" in head
    head, _, _ = told(made, "with s as (select * from db.n_plain) insert into db.k_plain select * from s")
    assert "INSERT of table db.k_plain" in head
    head, tables, _ = told(made, "insert into db.n_plain replace where day = 1 select id, 1, v from db.k_plain")
    assert "each data file that has rows of the read below" in head and "skips by: ((day = 1))" in tables
    head, _, _ = told(made, "insert into db.k_input /*+ OPTIONS('emit.mode' = 'file') */ values (7, 7, 'x')")
    assert "receives nothing from this write" in head
    head, _, _ = told(made, "insert into db.k_input /*+ OPTIONS('emit.mode' = 'log') */ values (7, 7, 'x')")
    assert "writes: nothing to the files" in head


def test_a_merge_explains_both_of_its_reads(made: Lake) -> None:
    head, tables, plan = told(
        made,
        "merge into db.k_changes t using db.n_plain s on t.id = s.id and t.day = s.day "
        "when matched then update set v = s.v when not matched then insert *",
    )
    assert "MERGE of table db.k_changes" in head and "changes of the merged table" in head
    assert "Table db.k_changes" in tables and "Table db.n_plain" in tables and "Join" in plan


def test_what_the_statement_refuses_its_explain_refuses(made: Lake) -> None:
    for text, error, message in (
        ("update db.gone set v = 'x'", NotFound, "'db.gone' does not exist"),
        ("delete from db.n_input /*+ OPTIONS('emit.mode' = 'log') */ where v = 'a'", UnsupportedFeature, "emit.mode"),
        ("insert into db.k_plain$snapshots values (1)", UnsupportedFeature, "system table"),
    ):
        with pytest.raises(error, match=message):
            made.sql(f"explain {text}")
    with pytest.raises(UnsupportedFeature, match="EXPLAIN adds no columns"):
        made.sql("explain insert with schema evolution into db.k_plain by name select 1 as id, 1 as day, 2 as more")


def test_modes_and_tables_of_spark(made: Lake, spark) -> None:
    ((text,),) = made.sql("explain formatted update db.k_plain set v = 'x'").collect()
    assert text.startswith("== Write ==") and "(1) " in text
    ((text,),) = made.sql("explain extended delete from db.k_plain where v = 'x'").collect()
    assert "== Optimized Logical Plan ==" in text
    spark.sql("create table spark_t (id int) using parquet")
    try:
        for query in ("values (1)", "select id from db.k_plain"):
            ((text,),) = made.sql(f"explain insert into spark_t {query}").collect()
            assert "InsertIntoHadoopFsRelationCommand" in text and "== Write ==" not in text
        assert spark.table("spark_t").count() == 0
    finally:
        spark.sql("drop table spark_t")

"""Spark's own methods with the names of a lake's tables, in a session that the user made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lakelog
from lakelog import Lake
from lakelog.errors import AlreadyExists, UnsupportedStatement

pytestmark = pytest.mark.local_only("Spark Connect's classes do not know their session")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lakelog.attach(spark, tmp_path / "warehouse") as opened:
        opened.create_table("db.t", {"id": "bigint", "name": "string"}, primary_key="id", options={"bucket": 1})
        spark.sql("insert into db.t values (1, 'a'), (2, 'b')")
        yield opened
        for query in spark.streams.active:
            query.stop()


def rows(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_tables_are_read_by_their_names(lake: Lake, spark: SparkSession) -> None:
    expected = [(1, "a"), (2, "b")]
    assert rows(spark.table("db.t")) == rows(spark.read.table("db.t")) == expected
    assert rows(spark.read.option("scan.snapshot-id", 1).table("lakelog.db.t")) == expected
    spark.range(3).createOrReplaceTempView("t")
    spark.catalog.setCurrentDatabase("db")
    assert rows(spark.table("t")) == [(0,), (1,), (2,)]  # a view hides the table, as in SQL
    spark.catalog.dropTempView("t")
    assert rows(spark.table("t")) == expected
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("db.none").collect()


def test_frames_are_written_by_the_name(lake: Lake, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(3, "c")], "id long, name string")
    frame.write.insertInto("db.t")
    frame.selectExpr("'d' as name", "4L as id").writeTo("db.t").append()
    assert rows(spark.table("db.t")) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    frame.write.insertInto("db.t", overwrite=True)
    assert rows(spark.table("db.t")) == [(3, "c")]
    frame.write.saveAsTable("db.new", format="lakelog", mode="error", partitionBy="name")
    frame.write.saveAsTable("db.new", mode="append")
    frame.write.saveAsTable("db.new", mode="ignore")
    frame.write.format("lakelog").mode("append").saveAsTable("db.new")
    with pytest.raises(AlreadyExists):
        frame.write.format("lakelog").saveAsTable("db.new")
    assert rows(spark.table("db.new")) == [(3, "c")] * 3
    assert lake.table("db.new").definition.partition_keys == ("name",)
    frame.writeTo("db.made").using("lakelog").partitionedBy("name").tableProperty("file.format", "orc").create()
    assert lake.table("db.made").options["file.format"] == "orc"
    with pytest.raises(AlreadyExists):
        frame.writeTo("db.made").create()
    frame.writeTo("db.made").createOrReplace()
    assert rows(spark.table("db.made")) == [(3, "c")]


def test_a_batch_of_a_stream_is_merged_in_its_own_session(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "name": "A"}\n{"id": 3, "name": "c"}\n')
    counts = []

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            "merge into db.t t using batch s on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )
        counts.append(batch.sparkSession.table("db.t").count())

    stream = spark.readStream.schema("id bigint, name string").json(str(tmp_path / "in")).writeStream
    query = stream.foreachBatch(merge).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert counts == [3]
    assert rows(spark.table("db.t")) == [(1, "A"), (2, "b"), (3, "c")]


def test_a_batch_of_a_stream_is_merged_by_the_table_in_hand(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """Its frame is of another session, whose views the lake's session does not see."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "name": "A"}\n{"id": 3, "name": "c"}\n')

    def merge(batch: DataFrame, number: int) -> None:
        lake.table("db.t").merge(batch, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
        lake.table("db.t").write(batch.where("id = 3").selectExpr("4 as id", "name"))

    stream = spark.readStream.schema("id bigint, name string").json(str(tmp_path / "in")).writeStream
    query = stream.foreachBatch(merge).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert rows(spark.table("db.t")) == [(1, "A"), (2, "b"), (3, "c"), (4, "c")]
    assert not [view for view in spark.catalog.listTables("global_temp") if view.name.startswith("lakelog_frame")]


def test_the_writer_keeps_the_partitions_that_it_was_given(lake: Lake, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(3, "c")], "id long, name string")
    frame.write.partitionBy("name").mode("overwrite").saveAsTable("db.by_name")
    assert lake.table("db.by_name").definition.partition_keys == ("name",)
    frame.write.mode("append").saveAsTable("db.by_name")
    assert lake.table("db.by_name").count() == 2


def test_what_has_no_equivalent_says_what_to_write(lake: Lake, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(3, "c")], "id long, name string")
    for way, text in (
        (lambda: frame.mergeInto("db.t", frame.id == 1), r"lake\.table\('db\.t'\)\.merge"),
        (lambda: frame.writeTo("db.t").overwrite(frame.id == 1), "REPLACE WHERE"),
        (lambda: spark.catalog.getTableProperties("db.t"), "SHOW TBLPROPERTIES db.t"),
    ):
        with pytest.raises(UnsupportedStatement, match=text) as told:
            way()
        assert "\n" not in str(told.value)


def test_streams_are_read_and_written_by_the_name(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.create_table("db.copy", {"id": "bigint", "name": "string"}, primary_key="id")
    stream = spark.readStream.table("db.t")
    query = (
        stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("db.copy")
    )
    assert query.awaitTermination(120)
    lake.table("db.copy").seal()
    assert rows(spark.table("db.copy")) == [(1, "a"), (2, "b")]


def test_the_catalog_lists_the_tables(lake: Lake, spark: SparkSession) -> None:
    catalog = spark.catalog
    assert (catalog.tableExists("db.t"), catalog.tableExists("t", "db"), catalog.tableExists("db.u")) == (
        True, True, False,
    )  # fmt: skip
    assert catalog.databaseExists("db") and not catalog.databaseExists("none")
    assert {"db", "default"} <= {database.name for database in catalog.listDatabases()}
    assert [table.name for table in catalog.listTables("db") if not table.isTemporary] == ["t"]
    assert [table.name for table in catalog.listTables("db", "u*")] == []
    assert (catalog.getTable("db.t").database, catalog.getTable("db.t").name) == ("db", "t")
    assert [(column.name, column.dataType) for column in catalog.listColumns("db.t")] == [
        ("id", "bigint"), ("name", "string"),
    ]  # fmt: skip
    catalog.truncateTable("db.t")
    assert rows(spark.table("db.t")) == []
    catalog.dropTable("db.t")
    assert not lake.table_exists("db.t")


def test_a_new_session_knows_the_tables_and_the_end_of_the_lake_is_theirs(spark: SparkSession, tmp_path: Path) -> None:
    with lakelog.attach(spark, tmp_path / "warehouse"):
        spark.sql("create table db.t as select 1 as id")
        other = spark.newSession()
        assert rows(other.sql("select * from db.t")) == rows(other.table("db.t")) == [(1,)]
    assert {"sql", "table", "newSession"} & set(vars(spark)) == set()
    assert not spark.catalog.tableExists("db.t")
    with pytest.raises(AnalysisException):
        spark.table("db.t").collect()

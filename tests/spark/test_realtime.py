"""The real-time path makes the rows of ``tail()`` and the records of a writer, by Spark's own operators alone."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, InvalidSchema, NotInstalled, UnsupportedFeature
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.spark.compat.arrow import collected
from lakelog.spark.realtime.json_columns import bucket_column
from lakelog.spark.realtime.kafka_connector import connector_needed
from lakelog.spark.realtime.realtime import changes_of, records_of
from lakelog.spark.runtime.arrow_rows import arrow_rows
from lakelog.spark.runtime.types import arrow_for_spark, conform

COLUMNS = """id bigint not null, flag boolean, tiny tinyint, small smallint, whole int, single float, twice double,
price decimal(10, 2), wide decimal(38, 18), name string, code char(3), raw binary, day date,
at timestamp, at_ms timestamp_ltz(3), at_ns timestamp_ltz(9), wall timestamp_ntz, wall_ms timestamp_ntz(3),
tags array<string>, days array<date>, doubles array<double>, counts map<string, int>, sizes map<string, decimal(5, 2)>,
blobs map<int, binary>, `odd.name` struct<a: int, b: struct<c: timestamp, d: array<decimal(4, 1)>>>"""
ROWS = [
    {"id": 1},
    {
        "id": -(2**63), "flag": True, "tiny": -128, "small": -(2**15), "whole": -(2**31), "single": 0.1,
        "twice": 1e-300, "price": Decimal("-12345678.90"), "wide": Decimal("0.000000000000000001"),
        "name": 'quote " \\ back \n line \u00fc \U0001f600', "code": "abc", "raw": b"\x00\xff" * 60,
        "day": date(1582, 10, 14), "at": datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "at_ms": datetime(2024, 3, 31, 1, 30, 0, 120_000), "at_ns": datetime(2024, 1, 31, 23, 59, 59, 123_456),
        "wall": datetime(2024, 3, 31, 2, 30), "wall_ms": datetime(2024, 10, 27, 2, 30, 0, 7_000),
        "tags": ["a", None, ""], "days": [date(2000, 2, 29), None], "doubles": [float("nan"), float("-inf"), 0.1],
        "counts": [("x", 1), ("y", None)], "sizes": [("s", Decimal("1.50"))], "blobs": [(-1, b"\x01"), (2, None)],
        "odd.name": {"a": None, "b": {"c": datetime(2001, 2, 3, 4, 5, 6, 70_000), "d": [Decimal("1.0"), None]}},
    },
    {
        "id": 2**63 - 1, "flag": False, "single": float("nan"), "twice": float("inf"), "name": "", "raw": b"",
        "day": date(9999, 12, 31), "at": datetime(9999, 12, 31, 23, 59, 59), "tags": [], "counts": [],
        "odd.name": {"a": 5, "b": None},
    },
]  # fmt: skip
LOG_ONLY = {"emit.mode": "log"}  # no file holds timestamps of nine digits beside others
CREATE = (
    "create table db.t ({columns}) using lakelog tblproperties ('log-store.enabled' = 'true', 'bucket' = '1', "
    "'log-store.data-format' = 'debezium-json'{more})"
)


@pytest.fixture
def typed(lake, spark):
    """A table of all types; sessions whose time zone has gaps must not matter."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    more = ", 'log.changelog-mode' = 'all'"
    lake.sql(CREATE.format(columns=f"{COLUMNS}, primary key (id)", more=more))
    yield lake.table("db.t")
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def kafka_records(spark, table):
    """The log as Spark's Kafka source gives it."""
    found = pa.concat_tables(table.log_records())
    columns = [c.to_pylist() for c in (found["key"], found["value"], found["header"])]
    rows = [(k, v, None if h is None else [("other", b"x"), ("lakelog", h)]) for k, v, h in zip(*columns, strict=True)]
    types = "key binary, value binary, headers array<struct<key: string, value: binary>>"
    return spark.createDataFrame([(k, v, h) for k, v, h in rows], types)


def tailed(table, frame, **more) -> list[dict]:
    """What ``tail()`` gives, as Spark holds it."""
    target = arrow_for_spark(frame.schema)
    batches = [conform(batch, target) for batch in table.tail("earliest", stop="latest", **more)]
    return pa.Table.from_batches(batches, target).to_pylist()


def same(rows: list[dict]) -> list[str]:
    """Rows in an order of their own, NaN equal to itself."""
    return sorted(repr(row) for row in rows)


def rows_of(table, kinds: list[str] | None = None) -> pa.Table:
    schema = table.schema
    arrow = pa.Table.from_pylist([{n: row.get(n) for n in schema.names} for row in ROWS], schema)
    return arrow if kinds is None else arrow.append_column("_row_kind", pa.array(kinds))


def test_changes_of_all_types_are_those_of_tail(typed, spark) -> None:
    typed.write(rows_of(typed), options=LOG_ONLY)
    with typed.writer(options=LOG_ONLY) as writer:
        old, new = rows_of(typed).slice(1, 1), rows_of(typed).slice(1, 1)
        new = new.set_column(new.schema.get_field_index("name"), new.schema.field("name"), pa.array(["new"]))
        kinds = pa.array(["-U", "+U", "-D"])
        writer.write(
            pa.concat_tables([old, new, rows_of(typed).slice(2, 1)]).append_column("_row_kind", kinds).combine_chunks()
        )
    frame = changes_of(kafka_records(spark, typed), typed.logical)
    want = tailed(typed, frame)
    assert sorted(r["_row_kind"] for r in want) == ["+I"] * 3 + ["+U", "-D", "-U"]
    assert same(collected(frame).to_pylist()) == same(want)
    some = changes_of(kafka_records(spark, typed), typed.logical, ["at_ns", "odd.name"])
    assert same(collected(some).to_pylist()) == same(tailed(typed, some, columns=["at_ns", "odd.name"]))


def test_records_of_all_types_are_those_of_a_writer(typed, spark) -> None:
    typed.write(rows_of(typed, ["+I", "+U", "-D"]), options=LOG_ONLY)
    source = changes_of(kafka_records(spark, typed), typed.logical)
    records = collected(records_of(source, typed.logical))
    assert records["headers"].to_pylist()[0] == [{"key": "lakelog", "value": UNOWNED_HEADER}]
    before = tailed(typed, source)
    columns = [records[name].cast(pa.large_binary()).combine_chunks() for name in ("key", "value")]
    appender = appender_for(typed.logical.log)
    appender.append(0, Records(columns[0], columns[1], UNOWNED_HEADER))
    appender.flush()
    assert same(tailed(typed, source)) == same(before * 2)


def test_variants_are_read_and_not_written(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int, v variant, many array<variant>, primary key (id)", more=""))
    values = """(1, parse_json('{"a": [1.50, 2e0]}'), array(parse_json('1'), null)), (2, null, null)"""
    lake.sql(f"insert into db.t values {values}")
    table = lake.table("db.t")
    frame = changes_of(kafka_records(spark, table), table.logical)
    assert same(arrow_rows(frame).to_pylist()) == same(tailed(table, frame))
    with pytest.raises(UnsupportedFeature, match="log-first writes do not support VARIANT columns"):
        records_of(spark.sql("select 1 id, parse_json('1') v, array(parse_json('1')) many"), table.logical)


def test_records_from_before_and_after_an_alter_are_those_of_a_tail(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int, n int, o int, s string, at timestamp", more=", 'bucket-key' = 'id'"))
    before = lake.table("db.t")
    lake.sql("insert into db.t values (1, 10, 11, 'a', timestamp'2024-01-01 00:00:00')")
    running = before.logical
    lake.sql("alter table db.t rename column n to m; alter table db.t rename column o to n")
    lake.sql("alter table db.t alter column m type bigint; alter table db.t drop column s; alter table db.t add s int")
    lake.sql("insert into db.t values (2, 5000000000, 21, timestamp'2024-01-02 00:00:00', 7)")
    before.write(pa.table({"id": pa.array([3], pa.int32()), "n": pa.array([30], pa.int32()), "s": ["c"]}))
    table = lake.table("db.t")
    frame = changes_of(kafka_records(spark, table), table.logical)
    want = tailed(table, frame)
    assert [(r["id"], r["m"], r["n"], r["s"]) for r in want] == [
        (1, 10, 11, None),
        (2, 5 * 10**9, 21, 7),
        (3, 30, None, None),
    ]
    assert same(collected(frame).to_pylist()) == same(want)
    some = changes_of(kafka_records(spark, table), table.logical, ["m", "at"])
    assert same(collected(some).to_pylist()) == same(tailed(table, some, columns=["m", "at"]))
    (record,) = records_of(spark.sql("select 4 id, 40L m"), table.logical).collect()
    assert bytes(record.headers[0].value).split(b"|")[7] == b"%d" % table.logical.schema.id
    with pytest.raises(PySparkException, match=r"changed by ALTER TABLE.*restart the query"):
        changes_of(kafka_records(spark, table), running).collect()
    lake.sql("alter table db.t alter column n type string")
    changed = lake.table("db.t").logical
    with pytest.raises(PySparkException, match=r"'n'.*had another type in older records.*use read_stream"):
        changes_of(kafka_records(spark, table), changed).collect()


def test_corrections_come_or_not_and_others_never(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int", more=", 'bucket-key' = 'id'"))
    table = lake.table("db.t")
    appender = appender_for(table.logical.log)

    def record(op: str, header: bytes) -> None:
        image, none = '{"id":1}', "null"
        value = f'{{"before":{none if op == "c" else image},"after":{none if op == "d" else image},"op":"{op}"}}'
        appender.append(
            0, Records(pa.nulls(1, pa.large_binary()), pa.array([value.encode()], pa.large_binary()), header)
        )

    for op, header in [("c", b"1|d|w|0|a"), ("c", b"1|d|w|0|b"), ("d", b"1|x|w|0|a|0|-1"), ("c", UNOWNED_HEADER)]:
        record(op, header)
    nothing = pa.nulls(1, pa.large_binary())
    appender.append(0, Records(nothing, nothing, b"1|c|w|0|"))
    appender.flush()
    frame = changes_of(kafka_records(spark, table), table.logical)
    assert [r._row_kind for r in frame.collect()] == ["+I", "+I", "-D", "+I"]
    off = table.logical.with_hints({"log-store.consistency-guarantee.enabled": "false"})
    assert [r._row_kind for r in changes_of(kafka_records(spark, table), off).collect()] == ["+I"] * 3
    inserts = table.logical.with_hints({"log.consumer.changelog.modes": "append-only"})
    assert [r._row_kind for r in changes_of(kafka_records(spark, table), inserts).collect()] == ["+I"] * 3
    strict = table.logical.with_hints({**inserts.hints, "log.consumer.retractions": "error"})
    with pytest.raises(PySparkException, match="has a change of kind"):
        changes_of(kafka_records(spark, table), strict).collect()
    record("c", b"3|d|w|0|a")
    appender.flush()
    with pytest.raises(PySparkException, match=r"does not know: 3\|d"):
        changes_of(kafka_records(spark, table), table.logical).collect()


def test_a_change_that_is_none_stops_the_query(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int", more=", 'bucket-key' = 'id'"))
    records = spark.sql("""select '{"before":null,"after":{"id":1},"op":"x"}' value, null headers""")
    typed = records.withColumn("headers", sf.col("headers").cast("array<struct<key: string, value: binary>>"))
    with pytest.raises(PySparkException, match="not debezium-json with op c, u or d, but x"):
        changes_of(typed, lake.table("db.t").logical).collect()


def test_rows_that_the_table_does_not_take_are_no_records(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int not null, name string", more=", 'bucket-key' = 'id'"))
    table = lake.table("db.t").logical
    with pytest.raises(InvalidSchema, match="no column 'more'"):
        records_of(spark.range(1).selectExpr("cast(id as int) id", "1 more"), table)
    with pytest.raises(PySparkException, match="NULL in column 'id'"):
        records_of(spark.range(1).selectExpr("cast(null as int) id"), table).collect()
    with pytest.raises(PySparkException, match="does not take rows with '_row_kind' = -D"):
        records_of(spark.range(1).selectExpr("cast(id as int) id", "'-D' as _row_kind"), table).collect()
    found = records_of(spark.range(1).selectExpr("cast(id as int) id"), table).collect()
    assert [(r.key, r.value) for r in found] == [
        (None, '{"before":null,"after":{"id":0,"name":null},"op":"c"}'),
    ]


def test_a_time_with_a_zone_and_one_without_are_the_same_in_utc(lake, spark) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    lake.sql(CREATE.format(columns="at timestamp, wall timestamp_ntz", more=", 'bucket-key' = 'at'"))
    given = "timestamp'2024-03-31 01:30:00Z' as wall, timestamp_ntz'2024-03-31 02:30:00' as at"
    (found,) = records_of(spark.sql(f"select {given}"), lake.table("db.t").logical).collect()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    want = '{"at":"2024-03-31 02:30:00.000000Z","wall":"2024-03-31 01:30:00.000000"}'
    assert found.value == f'{{"before":null,"after":{want},"op":"c"}}'


KEYS = {
    "id bigint": ["(id - 300) * 1234567890123"],
    "id int, small smallint, tiny tinyint": [
        "cast(id * 1234567 as int)",
        "cast(-id as smallint)",
        "cast(id % 100 - 50 as tinyint)",
    ],
    "id string": ["case when id % 7 = 0 then null else repeat(chr(65 + id % 26), cast(id % 20 as int)) end"],
    "id string, raw binary, more string": [
        "concat('\u00fc', id)",
        "cast(repeat('x', cast(id % 9 as int)) as binary)",
        "if(id % 3 = 0, null, concat('longer than a word ', id))",
    ],
    "id date, flag boolean": ["date_add(date'1900-01-01', cast(id * 100 as int))", "id % 2 = 0"],
    "id decimal(18,4)": ["cast((id - 300) * 1.2345 as decimal(18, 4))"],
}


@pytest.mark.parametrize("declared", KEYS)
def test_the_partition_of_a_record_is_the_bucket_of_its_row(lake, spark, declared) -> None:
    names = [part.split()[0] for part in declared.split(", ")]
    options = f"'bucket' = '7', 'bucket-key' = '{','.join(names)}'"
    lake.sql(f"create table db.t ({declared}) using lakelog tblproperties ({options})")
    schema = lake._tables.open(Identifier("db", "t")).schema
    given = [f"{value} as {name}" for name, value in zip(names, KEYS[declared], strict=True)]
    keys = spark.range(600).selectExpr(*given)
    found = collected(keys.select("*", bucket_column({n: sf.col(n) for n in names}, schema).alias("_bucket")))
    rows = found.drop_columns(["_bucket"]).combine_chunks().to_batches()[0]
    assert found["_bucket"].to_pylist() == bucket_of_rows(rows, schema).tolist()
    assert len(np.unique(found["_bucket"].to_numpy())) == 7


def test_a_key_that_spark_cannot_hash_is_refused(lake, spark) -> None:
    lake.sql("create table db.t (id double) using lakelog tblproperties ('bucket' = '2', 'bucket-key' = 'id')")
    with pytest.raises(UnsupportedFeature, match="'id' of type DOUBLE"):
        bucket_column({"id": sf.col("id")}, lake._tables.open(Identifier("db", "t")).schema)


def test_without_kafka_or_its_connector_it_says_what_to_do(lake, spark) -> None:
    lake.sql(CREATE.format(columns="id int", more=", 'bucket-key' = 'id'"))
    with pytest.raises(InvalidRequest, match="needs a log on Kafka.*'embedded'"):
        lake.read_realtime("db.t")
    with pytest.raises(InvalidRequest, match="needs a log on Kafka"):
        lake.write_realtime(spark.readStream.format("rate").load(), "db.t")
    how = r"spark\.jars\.packages.*spark-sql-kafka-0-10_2\.13:.*LAKELOG_KAFKA_JARS"
    with pytest.raises(NotInstalled, match=how), connector_needed():
        _ = spark.readStream.format("kafka").option("subscribe", "t").load().schema  # Connect looks for it only now

"""Nexmark as materialized views beside PyFlink with upsert-kafka: rows per second, and that both have the same rows.

usage: nexmark.py [--rows 500000] [--queries q1,q2,q3,q4,q5,q8] [--results DIR]

Each query reads this number of rows. They are there before the clock starts: in tables of lakelog, in ten commits, and
in topics of a Kafka broker. lakelog refreshes the views of a query after each commit. A job of Flink reads the topics
to their end, with two slots and mini-batches, after two jobs over a tenth of the rows. Figures are those of the rows
beyond this tenth, so that neither the start of a job nor the first fill of a state counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from environments import Environment
from nexmark_events import SHARES, TABLES, events
from nexmark_queries import QUERIES, Query
from process_tree import end_tree
from results import busy_cores, write_results

from lakelog import connect
from lakelog.lake import Lake
from lakelog.service.servers.server_process import KafkaBroker
from lakelog.sql.views.refresh import ViewRefresher
from lakelog.sql.views.sources import SourceReads

FLINK = Environment(
    ("apache-flink==2.3.0",),
    ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",),
    ("flink-sql-connector-kafka", "org.apache.flink_flink-sql-connector-kafka"),
)
_PARTS = 10
_PARTITIONS = 2
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Work:
    """Rows of a query per second of the clock and of CPU, and the rows of its result by key.

    ``rows_per_s`` is None on a machine so loaded that ten times the rows took no longer than a tenth.
    """

    rows_per_s: float | None
    cpu_us_per_row: float
    result: Rows


def lakelog_work(query: Query, parts: list[dict[str, pa.Table]]) -> Work:
    """Refreshes the views of a query after each part; the first part warms up."""
    with tempfile.TemporaryDirectory(prefix="lakelog-nexmark-") as warehouse, connect(warehouse) as lake:
        _create(lake)
        reads, refreshers = SourceReads(lake._session), []
        for name, text in query.views.items():
            lake.sql(f"create materialized view db.{name} refresh manual as {text}")
            refreshers.append(ViewRefresher(lake._session, lake._session.identifier(f"db.{name}"), warehouse, reads))
        seconds = cpu = rows = 0.0
        for number, part in enumerate(parts):
            for name in query.sources:
                lake.write(part[name], f"db.{name}")
            wall, used = time.perf_counter(), time.process_time()
            reads.forget()
            for refresher in refreshers:
                refresher.refresh()
            if number:
                seconds, cpu = seconds + time.perf_counter() - wall, cpu + time.process_time() - used
                rows += sum(part[name].num_rows for name in query.sources)
        for refresher in refreshers:
            refresher.end()
        found = lake.table(f"db.{list(query.views)[-1]}").scan(list(query.columns)).to_arrow()
        return Work(rows / seconds, cpu / rows * 1e6, _by_key(query, found.to_pylist()))


def _create(lake: Lake) -> None:
    lake.sql("create database db")
    for name, columns in TABLES.items():
        shown = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        lake.sql(
            f"create table db.{name} ({shown}, primary key (id)) using lakelog "
            "tblproperties ('write-only' = 'true', 'commit.interval' = '1 h')"
        )
    lake.sql("create table db.window_start (back bigint, primary key (back)) using lakelog")
    lake.write(pa.table({"back": [0, 2000, 4000, 6000, 8000]}), "db.window_start")


def _by_key(query: Query, rows: list[dict[str, Any]]) -> Rows:
    plain = [tuple(float(v) if isinstance(v, Decimal) else v for v in row.values()) for row in rows]
    return {row[: query.key]: row for row in plain}


def fill_topics(bootstrap: str, prefix: str, parts: list[dict[str, pa.Table]]) -> None:
    """Sends the rows as JSON, by key."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic in admin.create_topics([NewTopic(f"{prefix}-{name}", _PARTITIONS, 1) for name in parts[0]]).values():
        topic.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for part in parts:
        for name, rows in part.items():
            for row in rows.to_pylist():
                key, value = json.dumps({"id": row["id"]}), json.dumps(row)
                while True:
                    try:
                        producer.produce(f"{prefix}-{name}", value, key)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.flush()


def flink_work(query: Query, bootstrap: str, prefix: str, small: int, rows: int) -> Work:
    """Runs the query over the small topics twice, and over all rows."""
    admin, sink = AdminClient({"bootstrap.servers": bootstrap}), f"sink-{time.time_ns()}"
    sizes = ("small", "small", "all")
    runs = [{"topics": f"{prefix}-{size}", "sink": f"{sink}-{at}"} for at, size in enumerate(sizes)]
    for made in admin.create_topics([NewTopic(run["sink"], _PARTITIONS, 1) for run in runs]).values():
        made.result(30)
    given = {
        "jars": [str(jar) for jar in FLINK.jars()],
        "tables": {name: dict(TABLES[name]) for name in query.sources},
        "columns": dict(query.columns),
        "key": query.key,
        "query": query.flink,
        "bootstrap": bootstrap,
        "runs": runs,
    }
    side = str(Path(__file__).with_name("nexmark_flink.py"))
    process = subprocess.Popen([FLINK.python(), side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = process.communicate(json.dumps(given), timeout=1800)
    finally:
        end_tree(process.pid)
    done = [json.loads(line.removeprefix("done ")) for line in out.splitlines() if line.startswith("done ")]
    if len(done) != len(runs):
        raise RuntimeError(f"Flink ended after {len(done)} of {len(runs)} jobs: {out[-2000:]}")
    more = rows - small
    seconds, cpu = (done[2][name] - done[1][name] for name in ("seconds", "cpu_seconds"))
    if cpu <= 0:
        raise RuntimeError(f"ten times the rows cost Flink no more than a tenth, {done}: give more --rows")
    return Work(more / seconds if seconds > 0 else None, cpu / more * 1e6, _result(query, bootstrap, runs[2]["sink"]))


def _result(query: Query, bootstrap: str, topic: str) -> Rows:
    """The rows that a sink topic adds up to."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    places = [TopicPartition(topic, number, 0) for number in range(_PARTITIONS)]
    left = sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
    consumer.assign(places)
    rows: dict[bytes, dict[str, Any] | None] = {}
    while left:
        for message in consumer.consume(10_000, timeout=1):
            if message.error() is None:
                left -= 1
                value = message.value()
                rows[message.key() or b""] = None if value is None else json.loads(value)
    consumer.close()
    return _by_key(query, [{name: row[name] for name in query.columns} for row in rows.values() if row is not None])


def compared(
    name: str, query: Query, bootstrap: str, prefix: str, parts: list[dict[str, pa.Table]]
) -> Mapping[str, Any]:
    """The figures of a query. Raises AssertionError if the two have other rows."""
    small, rows = (sum(part[s].num_rows for part in some for s in query.sources) for some in (parts[:1], parts))
    ours = lakelog_work(query, parts)
    theirs = flink_work(query, bootstrap, prefix, small, rows)
    assert ours.result.keys() == theirs.result.keys(), f"{name}: {len(ours.result)} and {len(theirs.result)} rows"
    differ = [key for key, row in ours.result.items() if not _same(row, theirs.result[key])]
    assert not differ, f"{name}: {len(differ)} rows differ, as {ours.result[differ[0]]} and {theirs.result[differ[0]]}"
    by_clock = {
        "lakelog_rows_per_s": None if ours.rows_per_s is None else round(ours.rows_per_s),
        "flink_rows_per_s": None if theirs.rows_per_s is None else round(theirs.rows_per_s),
        "ratio": None if not (ours.rows_per_s and theirs.rows_per_s) else round(ours.rows_per_s / theirs.rows_per_s, 2),
    }
    return {
        "rows": rows,
        "rows_of_result": len(ours.result),
        **{name: value for name, value in by_clock.items() if value is not None},
        "lakelog_cpu_us_per_row": round(ours.cpu_us_per_row, 2),
        "flink_cpu_us_per_row": round(theirs.cpu_us_per_row, 2),
        "ratio_by_cpu": round(theirs.cpu_us_per_row / ours.cpu_us_per_row, 2),
    }


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(abs(a - b) <= 1e-9 * abs(a) if isinstance(a, float) else a == b for a, b in zip(one, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    busy = busy_cores()
    figures: dict[str, Any] = {}
    filled: dict[str, list[dict[str, pa.Table]]] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-nexmark-") as place, KafkaBroker(place) as broker:
        for name in given.queries.split(","):
            sources = QUERIES[name].sources
            prefix = "-".join(sources)
            if prefix not in filled:
                step = round(given.rows / sum(SHARES[source] for source in sources) / _PARTS)
                filled[prefix] = [events(at * step, (at + 1) * step, sources) for at in range(_PARTS)]
                fill_topics(broker.bootstrap, f"{prefix}-small", filled[prefix][:1])
                fill_topics(broker.bootstrap, f"{prefix}-all", filled[prefix])
            figures[name] = compared(name, QUERIES[name], broker.bootstrap, prefix, filled[prefix])
            print(name, figures[name], QUERIES[name].note, flush=True)
    if given.results is not None:
        write_results(given.results, {"nexmark": figures}, busy)


if __name__ == "__main__":
    main()

"""Latency of the real-time path at a steady rate: a row from a Kafka client through Spark to a Kafka client.

``read``: the client appends to the table's log, Spark's real-time query sends the changes to a topic. ``write``: the
client fills a topic, Spark's real-time query writes the table's log first; then the follower makes the files.

usage: realtime.py [--seconds 40] [--rate 1000] [--warm-up 25] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from environments import connector_environment
from measure import percentiles
from process_tree import MemorySampler, cpu_seconds, end_tree

from lakelog import connect
from lakelog.lake import Table
from lakelog.service.servers.server_process import KafkaBroker

_CREATE = """create table db.t (id bigint, name string, sent_at double, primary key (id)) using lakelog tblproperties
('log-store.enabled' = 'true', 'log-store.address' = '{bootstrap}', 'bucket' = '1', 'commit.interval' = '2 s')"""
_START_S = 120.0


def realtime(seconds: float = 40, rate: int = 1_000, warm_up_s: float = 25) -> dict[str, Any]:
    """Latency in ms from made to seen, of reading and of writing; rows a second of the follower; CPU and memory."""
    out: dict[str, Any] = {}
    for what in ("read", "write"):
        with KafkaBroker(tempfile.mkdtemp(prefix="lakelog-bench-kafka-")) as broker:
            warehouse = tempfile.mkdtemp(prefix="lakelog-bench-")
            lake = connect(warehouse=warehouse)
            lake.sql("create database db")
            lake.sql(_CREATE.format(bootstrap=broker.bootstrap))
            out[what] = _measure(what, lake.table("db.t"), warehouse, broker.bootstrap, seconds, rate, warm_up_s)
    return out


def _measure(
    what: str, table: Table, warehouse: str, bootstrap: str, seconds: float, rate: int, warm_up_s: float
) -> dict[str, Any]:
    log = table.logical.log
    assert log is not None
    topic = "out" if what == "read" else "in"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(10)
    command = [sys.executable, str(Path(__file__).with_name("realtime_side.py")), what, warehouse, bootstrap, topic]
    checkpoint = tempfile.mkdtemp(prefix="lakelog-bench-checkpoint-")
    side = subprocess.Popen(
        [*command, checkpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=connector_environment()
    )
    try:
        assert side.stdin is not None and side.stdout is not None
        if side.stdout.readline().strip() != "started":
            raise RuntimeError(f"the Spark side of '{what}' did not start")
        send = _change if what == "read" else _row
        here, there = (log.topic, topic) if what == "read" else (topic, log.topic)
        memory = MemorySampler(side.pid)
        memory.start()
        cpu, started = cpu_seconds(side.pid), time.monotonic()
        rows = round((warm_up_s + seconds) * rate)
        latencies = _through(bootstrap, here, there, send, rows, rate)
        cpu, wall = cpu_seconds(side.pid) - cpu, time.monotonic() - started
        memory.stop()
        steady = latencies[round(warm_up_s * rate) :]
        found: dict[str, Any] = {"latency_ms": percentiles(steady[~np.isnan(steady)])}
        found |= {"rows_sent": rows, "rows_missing": int(np.isnan(latencies).sum())}
        found |= {"spark_cpu_cores": round(cpu / wall, 2), "spark_peak_mb": memory.peak_mb()}
        side.stdin.close()
        side.wait(60)
    finally:
        end_tree(side.pid)
    started = time.monotonic()
    followed = sum(s.delta_record_count or 0 for s in table.follow(stop="latest"))
    return found | {"followed": followed, "follower_rows_per_s": round(followed / (time.monotonic() - started))}


def _row(number: int) -> bytes:
    row = {"id": number, "name": f"customer-{number % 1000:08d}", "sent_at": time.time_ns() / 1e6, "_row_kind": "+I"}
    return json.dumps(row).encode()


def _change(number: int) -> bytes:
    row = _row(number).replace(b', "_row_kind": "+I"', b"")
    return b'{"before":null,"after":' + row + b',"op":"c"}'


def _through(bootstrap: str, here: str, there: str, make: Callable[[int], bytes], rows: int, rate: int) -> np.ndarray:
    """Sends rows at a rate and waits for them on the other side; ms from made to seen by row, NaN for a missing one."""
    latencies = np.full(rows, np.nan)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.wait.max.ms": 5, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(there, 0, 0)])
    done = threading.Event()

    def receive() -> None:
        left = rows
        while left and not done.is_set():
            first = consumer.poll(0.01)  # consume(500, 0.01) would wait for 500 messages or the whole time
            for message in () if first is None else (first, *consumer.consume(500, 0)):
                now, value = time.time_ns() / 1e6, message.value()
                if value is None or message.error():
                    continue
                row = json.loads(value)
                row = row.get("after") or row
                left -= bool(np.isnan(latencies[row["id"]]))
                latencies[row["id"]] = now - row["sent_at"]

    receiver = threading.Thread(target=receive)
    receiver.start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    producer.produce(here, make(0))
    producer.flush(10)
    begin = time.monotonic()
    while np.isnan(latencies[0]) and time.monotonic() < begin + _START_S:  # until the query runs
        time.sleep(0.01)
    begin = time.monotonic()
    for number in range(1, rows):
        due = begin + number / rate
        while time.monotonic() < due:
            time.sleep(0.0005)
        producer.produce(here, make(number))
        producer.poll(0)
    producer.flush(10)
    receiver.join(_START_S)
    done.set()
    receiver.join()
    consumer.close()
    return latencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--warm-up", type=float, default=25)
    parser.add_argument("--json")
    given = parser.parse_args()
    found = realtime(given.seconds, given.rate, given.warm_up)
    print(json.dumps(found, indent=2))
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

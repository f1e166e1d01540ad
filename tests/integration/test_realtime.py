"""Real-time queries on a real broker: a row through Spark's connector into the log first, and out of the log; the
follower makes the files; the writing query is killed and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import Lake, connect

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CREATE = """create table db.t (id bigint, name string, sent_at double, primary key (id)) using lakelog tblproperties
('log-store.enabled' = 'true', 'log-store.address' = '{address}', 'log-store.topic' = '{topic}-log', 'bucket' = '-1',
'log-store.partitions' = '3')"""


class Side:
    """A Spark process with one query under the real-time trigger."""

    def __init__(self, what: str, *arguments: object) -> None:
        from environments import connector_environment

        command = [sys.executable, str(BENCHMARKS / "realtime_side.py"), what, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=connector_environment()
        )

    def wait_started(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "started"

    def kill(self) -> None:
        from process_tree import end_tree

        end_tree(self.process.pid)
        self.process.wait()


@pytest.fixture
def sides(monkeypatch) -> Iterator[list[Side]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    started: list[Side] = []
    yield started
    for side in started:
        side.kill()


@pytest.fixture
def topic(kafka) -> str:
    """A new name; the queries read ``<name>-in`` and write ``<name>-out``."""
    name = f"realtime-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(f"{name}-{t}", num_partitions=1) for t in ("in", "out")]).values():
        made.result(120)
    return name


@pytest.fixture
def lake(kafka, topic, tmp_path) -> Iterator[Lake]:
    with connect(warehouse=str(tmp_path / "warehouse")) as opened:
        opened.sql(CREATE.format(address=kafka.bootstrap, topic=topic))
        yield opened
        opened.sql("drop table db.t purge")


def send(bootstrap: str, topic: str, ids: range, name: str, kind: str = "+I") -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in ids:
        row = {"id": number, "name": name, "sent_at": time.time(), "_row_kind": kind}
        producer.produce(topic, json.dumps(row).encode())
    assert producer.flush(30) == 0


class Out:
    """What the reading query has sent: the fold of its changes by key."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.state: dict[int, str] = {}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def wait_for(self, want: dict[int, str]) -> None:
        end = time.monotonic() + 120
        while self.state != want and time.monotonic() < end:
            for message in self._consumer.consume(1000, 0.2):
                row = json.loads(message.value() or b"{}")
                if row["_row_kind"] in ("-D", "-U"):
                    self.state.pop(row["id"], None)
                else:
                    self.state[row["id"]] = row["name"]
        assert self.state == want


def test_rows_go_through_the_log_first_and_into_files_whatever_is_killed(kafka, topic, lake, sides, tmp_path) -> None:
    place, table, out = tmp_path / "warehouse", lake.table("db.t"), Out(kafka.bootstrap, f"{topic}-out")

    def side(what: str) -> Side:
        to = f"{topic}-{'in' if what == 'write' else 'out'}"
        sides.append(Side(what, place, kafka.bootstrap, to, tmp_path / f"checkpoint-{what}"))
        sides[-1].wait_started()
        return sides[-1]

    writing, _ = side("write"), side("read")
    send(kafka.bootstrap, f"{topic}-in", range(500), "first")
    want = dict.fromkeys(range(500), "first")
    out.wait_for(want)
    assert sum(s.delta_record_count or 0 for s in table.follow(stop="latest")) == 500
    writing.kill()
    send(kafka.bootstrap, f"{topic}-in", range(400, 700), "second")
    send(kafka.bootstrap, f"{topic}-in", range(10), "first", kind="-D")
    side("write")
    want = dict.fromkeys(range(10, 400), "first") | dict.fromkeys(range(400, 700), "second")
    out.wait_for(want)
    list(table.follow(stop="latest"))
    assert {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()} == want
    assert list(table.follow(stop="latest")) == []

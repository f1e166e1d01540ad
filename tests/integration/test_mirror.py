"""Mirrors on a real broker, as a plain consumer of committed records reads them: every row once, whatever is killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Fenced, InvalidRequest
from lakelog.logstore.clients import reader_for
from lakelog.logstore.kafka import mirror as kafka_mirror
from lakelog.table.log.scan import LogScan
from log_tables import log_of, make, rows
from mirrored_topics import address, committed, folded, ids, mirrored_beside, run, write

KILLS = 12
BUCKETS, UNKEYED = ", 'bucket' = '2'", ", 'bucket-key' = 'id'"


@pytest.mark.parametrize("system", ["embedded", "files"])
@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_a_plain_consumer_ends_with_the_table(kafka, tmp_path, topic, system, mode) -> None:
    table = make(tmp_path, f", 'log-store.type' = '{system}', 'log.changelog-mode' = '{mode}'")
    to = address(kafka, topic)
    write(table, 1, 2, 3)
    assert run(table, to) == 3
    assert run(table, to) == 0
    kinds = ["-U", "+U", "-D", "+I"] if mode == "all" else ["+U", "-D", "+I"]
    changed = [1, 1, 2, 4] if mode == "all" else [1, 2, 4]
    with table.writer() as writer:
        names = ["a", "b", "a", "d"] if mode == "all" else ["b", "a", "d"]
        writer.write(pa.table({"id": pa.array(changed, pa.int32()), "name": names, "_row_kind": kinds}))
    assert run(table, to) == len(changed)
    assert folded(kafka, topic) == {
        b'{"id":1}': {"id": 1, "name": "b"},
        b'{"id":3}': {"id": 3, "name": "a"},
        b'{"id":4}': {"id": 4, "name": "d"},
    }
    ops = Counter(change["op"] for _, _, change in committed(kafka, topic))
    assert ops == ({"c": 4, "u": 1, "d": 1} if mode == "all" else {"c": 5, "d": 1})


@pytest.mark.parametrize("kind", ["keyed", "unkeyed", "dynamic", "one"])
def test_a_mirror_has_the_partitions_of_the_log(kafka, tmp_path, topic, kind) -> None:
    more = {"dynamic": ", 'bucket' = '-1', 'log-store.partitions' = '3'", "one": ", 'log-store.partitions' = '1'"}
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string{'' if kind == 'unkeyed' else ', primary key (id)'}) using lakelog "
        f"tblproperties ('log-store.enabled' = 'true'{more.get(kind, BUCKETS + UNKEYED * (kind == 'unkeyed'))})"
    )
    table = lake.table("db.t")
    write(table, *range(50))
    assert run(table, address(kafka, topic)) == 50
    found = {(partition, change["after"]["id"]) for partition, _, change in committed(kafka, topic)}
    log = log_of(table)
    scan = LogScan(table.logical)
    assert found == {
        (bucket, row["id"])
        for bucket, end in reader_for(log).end_offsets().items()
        for batch in scan.read(bucket, 0, end)
        for row in batch.to_pylist()
    }


def test_a_log_of_changes(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path, ", 'log.content' = 'changes'"), address(kafka, topic)
    write(table, 1, 2)
    run(table, to)
    write(table, 2, 3, name="b")
    run(table, to)
    assert sorted((row["id"], row["name"]) for row in folded(kafka, topic).values()) == [(1, "a"), (2, "b"), (3, "b")]
    assert [change["op"] for _, key, change in committed(kafka, topic) if key == b'{"id":2}'] == ["c", "u"]


def test_whole_changes_of_an_upsert_log(kafka, tmp_path, topic) -> None:
    table, whole = make(tmp_path), {"log.consumer.normalize": "true"}
    write(table, 1)
    assert run(table, address(kafka, topic), options=whole) == 1
    write(table, 1, name="b")
    assert run(table, address(kafka, topic), options=whole) == 2
    changes = [change for _, _, change in committed(kafka, topic)]
    assert changes[-1] == {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}, "op": "u"}
    with pytest.raises(InvalidRequest, match="normalize"):
        run(table, address(kafka, topic))


@pytest.mark.parametrize(
    ("system", "key"),
    [("embedded", ", primary key (id)"), ("files", ", primary key (id)"), ("files", "")],
    ids=["embedded", "files", "unkeyed"],
)
def test_kills_lose_nothing_and_repeat_nothing(kafka, tmp_path, topic, system, key) -> None:
    table = make(tmp_path, f", 'log-store.type' = '{system}', 'commit.interval' = '100 ms'", key=key)
    write(table, *range(500))
    to, rng, stopped = address(kafka, topic), random.Random(7), threading.Event()
    written = [500]

    def writing() -> None:
        with connect(warehouse=str(tmp_path / "warehouse")) as lake, lake.table("db.t").writer() as writer:
            while not stopped.is_set():
                first = written[0]
                changed, deleted = (rng.sample(range(first), 5), rng.sample(range(first), 2)) if key else ([], [])
                writer.write(rows(*range(first, first + 20), *changed, name=f"n{first}"))
                writer.write(rows(*deleted, kinds=["-D"] * len(deleted)))
                writer.commit()
                written[0] = first + 20

    writer = threading.Thread(target=writing)
    writer.start()
    begin, log = "earliest" if key else "latest-full", tmp_path / "job.log"
    try:
        for _ in range(KILLS):
            with log.open("ab") as errors, started(tmp_path, to, begin, errors) as job:
                assert job.stdout is not None
                for _ in range(rng.randrange(1, 5)):
                    assert job.stdout.readline() == b"commit\n", log.read_text()[-3000:]
                time.sleep(rng.random() * 0.05)
                job.send_signal(signal.SIGKILL)
    finally:
        stopped.set()
        writer.join()
    table.seal()
    run(table, to, start=begin)
    here, tailed = table.scan().to_arrow().to_pylist(), list[dict[str, Any]]()
    for batch in table.tail("earliest", stop="latest", options={"log.consistency": "transactional"}):
        tailed += batch.to_pylist()
    mirrored = [change["before"] or change["after"] for _, _, change in committed(kafka, topic)]
    assert Counter((row["id"], row["name"]) for row in mirrored) == Counter((row["id"], row["name"]) for row in tailed)
    assert written[0] > 500
    if key:
        want = {json.dumps({"id": row["id"]}, separators=(",", ":")).encode(): row for row in here}
        assert folded(kafka, topic) == want
    else:
        assert ids(kafka, topic) == list(range(written[0]))
    assert sum(1 for _ in committed(kafka, f"{topic}.position")) > KILLS


def started(tmp_path: Path, to: str, start: str, errors: Any) -> subprocess.Popen[bytes]:
    job = [sys.executable, str(Path(__file__).with_name("mirror_job.py")), str(tmp_path / "warehouse"), to, start]
    return subprocess.Popen(job, stdout=subprocess.PIPE, stderr=errors)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_a_death_around_a_commit_repeats_nothing(kafka, tmp_path, topic, moment, monkeypatch) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1, 2)
    run(table, to)
    write(table, 3, 4)
    own = kafka_mirror.KafkaMirror

    class Dying(own):  # type: ignore[misc,valid-type]
        def commit(self, parts: Any, position: str) -> None:
            if moment == "after":
                super().commit(parts, position)
            if moment == "within":
                self._open.begin_transaction()
                self._open.produce(topic, b'{"before":null,"after":{"id":99},"op":"c"}', partition=0)
                self._open.flush()
            raise Killed

        def close(self) -> None:
            """A killed process aborts nothing."""

    monkeypatch.setattr(kafka_mirror, "KafkaMirror", Dying)
    with pytest.raises(Killed):
        run(table, to)
    monkeypatch.setattr(kafka_mirror, "KafkaMirror", own)
    run(table, to)
    assert ids(kafka, topic) == [1, 2, 3, 4]


def test_a_second_mirror_fences_the_first_and_repeats_nothing(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1)
    thread, failed = mirrored_beside(tmp_path, to)
    assert run(table, to) == 0
    write(table, 2, 3)
    thread.join(120)
    assert isinstance(failed[0], Fenced) and topic in str(failed[0])
    assert run(table, to) == 2
    assert ids(kafka, topic) == [1, 2, 3]


def test_new_columns_are_in_all_rows_that_have_them(kafka, tmp_path, topic) -> None:
    table, to, found = make(tmp_path), address(kafka, topic), []
    write(table, 1)
    stopped, begun = threading.Event(), threading.Event()

    def following() -> None:
        with connect(warehouse=str(tmp_path / "warehouse")) as lake:
            for done in lake.table("db.t").mirror(to, stop=stopped):
                found.append(done.rows)
                begun.set()

    thread = threading.Thread(target=following)
    thread.start()
    assert begun.wait(120)
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("alter table db.t add column price bigint")
        lake.sql("alter table db.t rename column name to title")
        lake.write(pa.table({"id": pa.array([2], pa.int32()), "title": ["b"], "price": [7]}), "db.t")
        while sum(found) < 2:
            thread.join(0.1)
            assert thread.is_alive()
    stopped.set()
    thread.join(120)
    changes = [change["after"] for _, _, change in committed(kafka, topic)]
    assert {"id": 1, "name": "a"} in changes and {"id": 2, "title": "b", "price": 7} in changes and len(changes) == 2

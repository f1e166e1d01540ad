"""kill -9 of the writing job, driver and executors at once, five times at random places of an epoch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect

ROWS = 24_000
KEYS = 3_000
RATE = 1_000


def make_changes(path: Path, seed: int) -> dict[int, dict]:
    """Writes a change stream and returns the state that it leads to."""
    rng = random.Random(seed)
    state: dict[int, dict] = {}
    out: list[tuple[int, str, int, str]] = []
    while len(out) < ROWS:
        key, value = rng.randrange(KEYS), rng.randrange(10**9)
        old = state.get(key)
        if old is None:
            out.append((key, f"n{value}", value, "+I"))
        elif rng.random() < 0.2:
            out.append((key, old["name"], old["v"], "-D"))
            del state[key]
            continue
        else:
            out.append((key, old["name"], old["v"], "-U"))
            out.append((key, f"n{value}", value, "+U"))
        state[key] = {"id": key, "name": f"n{value}", "v": value}
    ids, names, values, kinds = zip(*out, strict=True)
    table = pa.table(
        {"id": pa.array(ids, pa.int64()), "name": names, "v": pa.array(values, pa.int64()), "_row_kind": kinds}
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return state


def fold_and_net(lake) -> tuple[dict[int, dict], int]:
    """The fold by a plain debezium-json consumer, and the net number of rows: +1 for an after, -1 for a before."""
    state: dict[int, dict] = {}
    net = 0
    for chunk in lake.table("db.t").log_records():
        for value in chunk["value"].to_pylist():
            if value is None:
                continue
            change = json.loads(value)
            net += (change["after"] is not None) - (change["before"] is not None)
            if change["op"] == "d":
                state.pop(change["before"]["id"], None)
            else:
                state[change["after"]["id"]] = change["after"]
    return state, net


def fold_committed(lake) -> dict[int, dict]:
    """The fold by a transactional reader, which sees no correction: nothing is deleted that is not there."""
    state: dict[int, dict] = {}
    options = {"log.consistency": "transactional"}
    for batch in lake.table("db.t").tail("earliest", stop="latest", options=options):
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            if kind == "-D":
                del state[row["id"]]
            elif kind != "-U":
                state[row["id"]] = row
    return state


@pytest.mark.parametrize(("log", "seed"), [("kafka", 1), ("embedded", 2)])
def test_five_kills_lose_nothing_and_repeat_nothing(tmp_path, log, seed, request) -> None:
    mode = "all" if seed == 1 else "upsert"
    address = f"'log-store.address' = '{request.getfixturevalue('kafka').bootstrap}', " if log == "kafka" else ""
    warehouse, checkpoint = str(tmp_path / "warehouse"), str(tmp_path / "checkpoint")
    with connect(warehouse=warehouse) as lake:
        lake.sql("create database db")
        lake.sql(
            f"create table db.t (id bigint, name string, v bigint, primary key (id)) using lakelog tblproperties "
            f"('log-store.enabled' = 'true', {address}'bucket' = '2', 'commit.interval' = '1 s', "
            f"'log.changelog-mode' = '{mode}', 'log-store.data-format' = 'debezium-json')"
        )
    want = make_changes(tmp_path / "changes.arrow", seed)
    rng, done, kills = random.Random(seed), tmp_path / "done", 0
    start_ms = int(time.time() * 1000) + 8_000
    arguments = [warehouse, checkpoint, str(tmp_path / "changes.arrow"), str(start_ms), str(RATE), str(done)]
    while not done.exists():
        with open(tmp_path / "job.log", "ab") as output:
            job = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("kill_job.py")), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if kills < 5:
                job.wait(timeout=9 + rng.random() * 5)
                assert done.exists(), (tmp_path / "job.log").read_text()[-3000:]
            else:
                assert job.wait(timeout=240) == 0, (tmp_path / "job.log").read_text()[-3000:]
        except subprocess.TimeoutExpired:
            kills += 1
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    with connect(warehouse=warehouse) as lake:
        files = {r["id"]: r for r in lake.table("db.t").scan().to_arrow().to_pylist()}
        folded, net = fold_and_net(lake)
        lake.table("db.t").seal()
        committed = fold_committed(lake)
    assert kills == 5, "every kill fell into the running job"
    assert files == want
    assert folded == want
    assert committed == want, "a transactional reader has seen each row that counts, and none that does not"
    if mode == "all":
        assert net == len(want), "each redundant row of the log is taken back exactly once"

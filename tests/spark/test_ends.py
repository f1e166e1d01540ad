"""What a streaming job leaves behind when it ends: nothing that waits for somebody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lakelog

ROWS, FILES = 40, 6


@pytest.mark.local_only("it starts a session of its own")
def test_a_job_that_ends_leaves_no_epoch_without_its_snapshot_and_markers(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '5 min')"
    )
    (tmp_path / "input").mkdir()
    for number in range(FILES):
        rows = ({"id": number * ROWS + i, "name": f"n{i}"} for i in range(ROWS))
        (tmp_path / "input" / f"{number}.json").write_text("\n".join(json.dumps(row) for row in rows))
    job = [sys.executable, str(Path(__file__).parent / "ended_job.py"), str(tmp_path / "warehouse")]
    places = [str(tmp_path / "input"), str(tmp_path / "checkpoint")]
    path = os.pathsep.join(sys.path)
    ended = subprocess.run([*job, *places], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    table, chain = lake.table("db.t"), tmp_path / "warehouse" / "db.db" / "t" / "lakelog" / "chain"
    until = time.monotonic() + 120
    while list(chain.glob("*")) and time.monotonic() < until:  # the worker outlives the job by moments
        time.sleep(0.1)
    assert list(chain.glob("*")) == []
    shown = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    assert sorted(i for batch in shown for i in batch["id"].to_pylist()) == list(range(ROWS * FILES))

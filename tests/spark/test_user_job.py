"""A user's program with a session of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import lakelog
from servers.spark_home import job_environment

ROWS, FILES = 40, 6


def test_its_workers_run_its_python_new_sessions_know_the_tables_and_its_end_leaves_nothing(tmp_path: Path) -> None:
    """Its environment is not activated: the first python3 of the PATH is another one. It ends with a streaming query,
    which leaves no epoch without its snapshot and markers.
    """
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another python >&2\nexit 3\n", encoding="utf-8")
    other.chmod(0o755)
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.ended (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '5 min')"
    )
    (tmp_path / "input").mkdir()
    for number in range(FILES):
        rows = ({"id": number * ROWS + i, "name": f"n{i}"} for i in range(ROWS))
        (tmp_path / "input" / f"{number}.json").write_text("\n".join(json.dumps(row) for row in rows))
    variables = {key: value for key, value in job_environment().items() if key != "PYSPARK_PYTHON"}
    places = [str(tmp_path / name) for name in ("warehouse", "input", "checkpoint")]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("user_job.py")), *places],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**variables, "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-2:] == ["4950", "(100, 100) db"], "a new session knows the tables, too"
    table, chain = lake.table("db.ended"), tmp_path / "warehouse" / "db.db" / "ended" / "lakelog" / "chain"
    until = time.monotonic() + 120
    while list(chain.glob("*")) and time.monotonic() < until:  # the worker outlives the job by moments
        time.sleep(0.1)
    assert list(chain.glob("*")) == []
    shown = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    assert sorted(i for batch in shown for i in batch["id"].to_pylist()) == list(range(ROWS * FILES))

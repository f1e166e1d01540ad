"""The same table on a Spark with separate executor processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from servers.spark_home import job_environment


def test_executors_in_processes_of_their_own_write_and_read_both_stores(tmp_path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    for part in range(3):
        rows = (json.dumps({"id": i, "name": f"n{i}"}) for i in range(part * 1000, part * 1000 + 1000))
        (directory / f"{part}.json").write_text("\n".join(rows), encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("cluster_job.py"))]
    command += [str(tmp_path / "warehouse"), str(directory), str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=job_environment())
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(found["files"].values()) == [3000, sum(range(3000))]
    assert found["log"] == 3000
    assert found["executors"] == 2
    # the first attempt of each task has died, and only files that nobody names tell of it
    compacted = found["compacted"]
    assert (compacted["buckets"], compacted["files"], compacted["again"], compacted["leases"]) == (4, 4, 0, 0)
    assert compacted["orphans"] >= 4

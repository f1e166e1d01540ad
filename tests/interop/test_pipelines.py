"""The pipeline of the examples runs with Spark's own command: a streaming table, and a sink into a keyed table."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lakelog
from secrets_in_files import leaked

ROOT = Path(__file__).parents[2]
RUN = ("run", "--conf", "spark.sql.catalogImplementation=hive")
"""Spark's own tables need a catalog that outlives the run."""


@pytest.mark.timeout(900)
def test_changes_reach_the_table_by_key_and_sequence_and_each_only_once(tmp_path: Path) -> None:
    project = tmp_path / "pipelines"
    shutil.copytree(ROOT / "examples" / "pipelines", project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(re.sub(r"storage: \S+", f"storage: {(tmp_path / 'storage').as_uri()}", spec.read_text()))
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("LAKELOG_WAREHOUSE", None)

    def orders_after(*command: str) -> list[tuple[int, float, int]]:
        for step in ([sys.executable, "prepare.py"], ["spark-pipelines", *command]):
            done = subprocess.run(step, cwd=project, env=environment, capture_output=True, text=True, timeout=400)
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        with lakelog.connect(project / "warehouse") as lake:
            rows = lake.table("shop.orders").scan().to_arrow().to_pylist()
        return sorted((row["id"], row["amount"], row["version"]) for row in rows)

    assert orders_after(*RUN) == [(1, 35.0, 3), (3, 5.0, 1)]
    assert orders_after(*RUN) == [(1, 35.0, 3), (3, 6.0, 2)]
    with lakelog.connect(project / "warehouse") as lake:
        tail = lake.table("shop.orders").tail("earliest", "latest")
        changes = [(row["_row_kind"], row["id"], row["amount"]) for batch in tail for row in batch.to_pylist()]
    assert changes == [("+I", 1, 35.0), ("+I", 3, 5.0), ("-U", 3, 5.0), ("+U", 3, 6.0)]
    assert leaked(project) == []

"""Spark's executors and an attached session find the parts of another package that is installed there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from new_parts import install

_PROGRAM = """
import sys
import lakelog

lake = lakelog.connect(warehouse=sys.argv[1])
lake.sql(
    "create table db.t (id int, v int, name string, primary key (id)) using lakelog "
    "tblproperties ('bucket' = '1', 'write-only' = 'true', 'merge-engine' = 'longest')"
)
lake.sql("insert into db.t values (1, 10, 'aaa'), (2, 20, 'b')")
lake.sql("insert into db.t values (1, 11, 'a'), (2, 21, 'bb')")
print([tuple(row) for row in lake.sql("select * from db.t order by id").collect()])
lake.sql(
    "create table db.u (id int, name string, primary key (id)) using lakelog tblproperties ('bucket' = '1', "
    "'merge-engine' = 'latest', 'log-store.enabled' = 'true', 'log-store.type' = 'journal')"
)
lake.sql("insert into db.u values (1, 'a')")
lake.sql("update db.u set name = 'b'")
print([tuple(row) for row in lake.sql("select * from db.u").collect()])
print([row["name"] for batch in lake.table("db.u").tail("earliest", stop="latest") for row in batch.to_pylist()])
lake.attach()
print([lake.spark.sql(text).first()["rows"] for text in ("tell the rows of db.t", "call sys.tell_rows('db.u')")])
print(lake.spark.sql("explain sweep db.t").first()["plan"].splitlines()[1])
lake.spark.stop()
"""


def test_spark_merges_logs_and_runs_statements_with_parts_of_another_package(tmp_path: Path) -> None:
    install(tmp_path / "site")
    path = os.pathsep.join([str(tmp_path / "site"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "warehouse")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "[(1, 10, 'aaa'), (2, 21, 'bb')]",
        "[(1, 'b')]",
        "['a', 'b']",
        "[2, 1]",
        "SWEEP of table db.t, primary key (id)",
    ]

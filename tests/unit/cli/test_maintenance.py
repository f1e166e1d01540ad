from __future__ import annotations

import pyarrow as pa
from click.testing import CliRunner

import lakelog
from lakelog.cli.main import lakelog as command


def test_compact_and_expire(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql("create database db; create table db.t (id int, name string, primary key (id))")
    for number in range(3):
        with lake.table("db.t").writer() as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32()), "name": ["a"]}))

    def answer(*arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, "--warehouse", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.output.strip()

    assert answer("compact", "db.t").startswith("snapshot 4: 1 bucket, 3 files (")
    assert answer("compact", "db.t") == "nothing to compact"
    assert answer("expire", "db.t", "--retain-max", "1") == "3 snapshots removed"
    assert answer("expire", "db.t") == "0 snapshots removed"

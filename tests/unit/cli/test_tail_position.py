"""``lakelog tail --position-file``: goes on where it was."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli.rows.streams import tail
from lakelog.errors import InvalidRequest


@pytest.fixture
def table(tmp_path):
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    return lake.table("db.t")


def write(table, *ids: int) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int64())}))


def test_the_next_tail_continues_after_the_printed_rows(table, tmp_path) -> None:
    place = tmp_path / "position"
    arguments = ["db.t", "--start", "earliest", "--stop", "latest", "--format", "jsonl"]
    arguments += ["--warehouse", str(tmp_path / "warehouse"), "--position-file", str(place)]

    def printed() -> list[int]:
        done = CliRunner().invoke(tail, arguments)
        assert done.exit_code == 0, done.exception
        return sorted(json.loads(line)["id"] for line in done.output.splitlines() if line.startswith("{"))

    write(table, 1, 2)
    assert printed() == [1, 2]
    kept = place.read_text()
    assert printed() == [] and place.read_text() == kept
    write(table, 3)
    assert printed() == [3] and place.read_text() != kept
    place.write_text("nonsense")
    with pytest.raises(InvalidRequest, match="nonsense"):
        CliRunner().invoke(tail, arguments, catch_exceptions=False)
    place.unlink()
    assert printed() == [1, 2, 3]


def test_a_file_that_cannot_be_written_is_named(table, tmp_path) -> None:
    write(table, 1)
    place = tmp_path / "nowhere" / "position"
    arguments = ["db.t", "--start", "earliest", "--stop", "latest", "--position-file", str(place)]
    with pytest.raises(InvalidRequest, match=str(place)):
        CliRunner().invoke(tail, [*arguments, "--warehouse", str(tmp_path / "warehouse")], catch_exceptions=False)

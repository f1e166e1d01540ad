"""A writer whose epochs have the position in its source: what is committed with it, and what another process sees."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import Table, connect
from lakelog.errors import Fenced, InvalidRequest, InvalidSchema
from lakelog.table.model.log_state import COPY_AGAIN
from lakelog.table.model.waiting_epochs import waiting_position
from lakelog.table.write.positioned_writer import PositionedWriter

LOGS = {"no log": {}, "embedded": {"log-store.enabled": "true"}}


@pytest.fixture(params=LOGS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    return lake.create_table("db.t", {"id": "int", "v": "string"}, primary_key="id", options=LOGS[request.param])


def rows(*ids: int, v: str = "a") -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)})


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())


def test_rows_and_position_are_one_commit(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    writer.write(rows(1, 2))
    assert (writer.position, waiting_position(table.logical, "copy"), ids(table)) == ("", "", [])
    assert writer.commit("p1") == 2
    assert (waiting_position(table.logical, "copy"), ids(table)) == ("p1", [1, 2])
    writer.seal()
    assert PositionedWriter(table.logical, "copy").position == "p1"


def test_rows_without_a_commit_are_not_in_the_table(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    writer.write(rows(1))
    writer.commit("p1")
    writer.write(rows(2))
    writer.close()
    again = PositionedWriter(table.logical, "copy")
    again.write(rows(3))
    again.commit("p2")
    again.seal()
    assert ids(table) == [1, 3]
    if table.log is not None:
        options = {"log.consistency": "transactional"}
        tailed = [r["id"] for b in table.tail("earliest", stop="latest", options=options) for r in b.to_pylist()]
        assert sorted(tailed) == [1, 3]


def test_a_failed_write_does_not_move_the_position(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    writer.write(rows(1))
    with pytest.raises(InvalidSchema):
        writer.write(pa.record_batch({"id": ["two"], "v": ["a"]}))
    with pytest.raises(InvalidRequest, match="not in table db.t"):
        writer.commit("p1")
    writer.close()
    assert PositionedWriter(table.logical, "copy").position == "" and ids(table) == []


def test_an_epoch_without_rows_stores_a_position(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    assert writer.commit("p1") == 0
    writer.seal()
    assert waiting_position(table.logical, "copy") == "p1"


def test_the_position_survives_other_commits(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    writer.write(rows(1))
    writer.commit("p1")
    writer.seal()
    table.write(rows(9))
    table.compact()
    table.truncate(options={"emit.mode": "file"})
    assert waiting_position(table.logical, "copy") == "p1"


def test_a_process_that_was_overtaken_is_fenced(table) -> None:
    suspended = PositionedWriter(table.logical, "copy")
    suspended.write(rows(1, 2))
    other = PositionedWriter(table.logical, "copy")
    other.write(rows(1, 3))  # as many rows
    other.commit("p1")
    with pytest.raises(Fenced, match="another process"):
        suspended.commit("p2")
    assert (waiting_position(table.logical, "copy"), ids(table)) == ("p1", [1, 3])


def test_a_table_that_was_rolled_back_behind_its_source_is_no_healthy_one_until_it_is_copied_again(table) -> None:
    writer = PositionedWriter(table.logical, "copy")
    for number in (1, 2):
        writer.write(rows(number))
        writer.commit(f"p{number}")
        writer.seal()
    writer.close()
    assert not table.health().findings
    table.rollback_to(1)
    found = table.health()
    assert [one.kind for one in found.findings] == ["ingest-undone"] and found.score <= 20
    assert "--copy-again" in found.findings[0].what_to_do
    again = PositionedWriter(table.logical, "copy")
    again.write(rows(2))
    again.commit(COPY_AGAIN)
    again.seal()
    again.close()
    assert not table.health().findings

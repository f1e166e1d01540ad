"""The source of the demo and the benchmarks sends each row once, whatever number of tasks reads it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.spark.session.replay_source import SENT_COLUMN, ReplaySource

ROWS = 20_001


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = str(tmp_path / "rows.arrow")
    table = pa.table({"id": range(ROWS)})
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return path


@pytest.mark.parametrize("more", [{}, {"partitions": "1"}, {"partitions": "2"}, {"partitions": "7"}])
def test_the_tasks_of_a_micro_batch_share_its_rows(rows: str, more: dict[str, str]) -> None:
    source = ReplaySource({"path": rows, "rate": "1e9", "paced_rows": "0", "burst": "15000", "start_ms": "0", **more})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    found: list[list[int]] = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        parts = reader.partitions(start, end)
        assert len(parts) == int(more.get("partitions", "1"))
        shares = [[i for batch in reader.read(part) for i in batch["id"].to_pylist()] for part in parts]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        found += shares
        start = end
    assert [i for part in found for i in part] == list(range(ROWS))


def test_the_due_time_of_a_row_does_not_depend_on_its_task(rows: str) -> None:
    options = {"path": rows, "rate": "1000", "paced_rows": "100000", "burst": "30000", "start_ms": "0"}
    times = []
    for partitions in ("1", "3"):
        source = ReplaySource({**options, "partitions": partitions})
        reader = source.streamReader(source.schema())
        parts = reader.partitions({"row": 0}, {"row": ROWS})
        times.append([t for part in parts for batch in reader.read(part) for t in batch[SENT_COLUMN].to_pylist()])
    assert times[0] == times[1]
    assert times[0] == sorted(times[0])

"""A count is the number of rows that a read returns, and reads no data file whose rows the metadata counts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.io.storage.local import LocalFileIO


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that were opened."""
    paths: list[str] = []
    open_input = LocalFileIO.open_input
    monkeypatch.setattr(LocalFileIO, "open_input", lambda self, path: paths.append(path) or open_input(self, path))
    return paths


def test_partitions_without_overlapping_files_are_counted_without_a_read(tmp_path, opened: list[str]) -> None:
    with connect(tmp_path) as lake:
        lake.sql(
            "create table d.t (day int, id int, v string, primary key (day, id)) using lakelog partitioned by (day) "
            "tblproperties ('bucket' = '1', 'write-only' = 'true', 'log-store.enabled' = 'true')"
        )
        table = lake.table("d.t")

        def write(days: range, ids: range, kind: str = "+I") -> None:
            rows = [{"day": day, "id": key, "v": "x", "_row_kind": kind} for day in days for key in ids]
            lake.write(pa.Table.from_pylist(rows), "d.t")

        write(range(20), range(3))
        write(range(20), range(3, 6))  # other keys of the same buckets
        opened.clear()
        assert table.scan().count() == 120
        assert opened == []
        write(range(2), range(2, 4))  # newer versions, in two of them
        assert table.scan().count() == 120 == table.scan().to_arrow().num_rows
        write(range(3), range(1), "-D")
        opened.clear()
        assert table.scan().count() == 117
        assert {path.rpartition("/day=")[2][0] for path in opened} <= {"0", "1", "2"}
        assert table.scan(options={"read.mode": "union"}).count() == 117
        assert table.scan(filter="id = 5").count() == 20
        assert table.scan().limit(7).count() == 7
        table.compact(full=True)
        opened.clear()
        assert table.scan().count() == 117
        assert opened == []


def test_rows_that_deletion_vectors_hide_are_not_counted(tmp_path) -> None:
    with connect(tmp_path) as lake:
        lake.sql(
            "create table d.t (id int, v string, primary key (id)) using lakelog "
            "tblproperties ('bucket' = '1', 'deletion-vectors.enabled' = 'true')"
        )
        for first in (0, 50):
            lake.write(pa.table({"id": list(range(first, first + 100)), "v": ["x"] * 100}), "d.t")
            lake.table("d.t").compact()
        assert lake.table("d.t").scan().count() == 150 == lake.table("d.t").scan().to_arrow().num_rows

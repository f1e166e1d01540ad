"""The write buffer: sorted, folded, spilled when full."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.filestore.write.memtable import Memtable
from lakelog.merge import merge_engine
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

SCHEMA = new_schema([("id", parse_type("BIGINT NOT NULL"), None)], ["id"])


def rows(ids: np.ndarray, first: int) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "_SEQUENCE_NUMBER": pa.array(np.arange(first, first + count)),
            "_VALUE_KIND": pa.array(np.zeros(count, np.int8)),
        }
    )


@pytest.mark.parametrize("limit", [1, 40_000, 1 << 30], ids=["each", "some", "none"])
def test_rows_come_sorted_and_folded_whether_spilled_or_not(limit, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memtable = Memtable(("id",), merge_engine("deduplicate", SCHEMA), limit)
    random = np.random.default_rng(7)
    newest: dict[int, int] = {}
    for at in range(10):
        ids = random.integers(0, 500, 400)
        memtable.add(rows(ids, at * 400))
        newest.update(zip(ids.tolist(), range(at * 400, at * 400 + 400), strict=True))
    assert bool(list(tmp_path.iterdir())) == (limit < 1 << 30)
    table = pa.Table.from_batches(memtable.sorted_batches())
    assert table.column("id").to_pylist() == sorted(newest)
    assert table.column("_SEQUENCE_NUMBER").to_pylist() == [newest[i] for i in sorted(newest)]
    memtable.close()
    assert list(tmp_path.iterdir()) == []
    assert list(memtable.sorted_batches()) == []


def test_an_empty_memtable_gives_nothing() -> None:
    memtable = Memtable(("id",), merge_engine("deduplicate", SCHEMA), 1)
    memtable.add(rows(np.array([], np.int64), 0))
    assert list(memtable.sorted_batches()) == []

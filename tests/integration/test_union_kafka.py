"""Reads of both stores over a real Kafka: union and latest-full."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.lake.table import Table
from lakelog.service.servers.server_process import KafkaBroker
from log_tables import files, make, rows

UNION = {"read.mode": "union"}


def on(kafka: KafkaBroker, path: Path, key: str = ", primary key (id)") -> Table:
    return make(path, f", 'log-store.address' = '{kafka.bootstrap}', 'log-store.drop-with-table' = 'true'", key)


@pytest.mark.parametrize("few", [0, 20_000])
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_open_rows_and_rows_that_were_taken_back(kafka, tmp_path, key, few, monkeypatch) -> None:
    monkeypatch.setattr("lakelog.table.read.union_scan._FEW_ROWS", few)
    table = on(kafka, tmp_path, key)
    assert files(table, **UNION) == []
    first = table.writer()
    first.write(rows(1, 2))
    first.flush()
    with table.writer() as second:
        second.write(rows(3, 4))
    assert files(table, **UNION) == [(n, "a") for n in (1, 2, 3, 4)]
    told = [r["id"] for b in table.tail("latest-full", stop="latest") for r in b.to_pylist()]
    assert sorted(set(told)) == [1, 2, 3, 4]
    assert key or len(told) == 4, "an upsert log is told again from its first open row on"
    first.close()
    assert files(table, **UNION) == files(table) == [(3, "a"), (4, "a")]

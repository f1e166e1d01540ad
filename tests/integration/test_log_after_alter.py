"""A log on real servers over ALTER TABLE: readers find columns by id, healers take back what was written before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.paimon.schema.changes import AddColumn, ChangeType, RenameColumn
from lakelog.paimon.types.types import BIGINT, STRING
from lakelog.service.servers.server_process import KafkaBroker
from lakelog.table.commit.take_over import take_over_now
from log_tables import make, silence
from pulsar_logs import on
from servers.pulsar_server import PulsarServer

FORMS = ["debezium-json", "arrow"]
MODES = ["upsert", "all", ""]


def changes(table: Table) -> list[dict[str, Any]]:
    """The rows of the log, with those that were taken back left out."""
    out: dict[str, dict[str, Any]] = {}
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            if kind in ("+I", "+U"):
                out[json.dumps(row)] = row
            else:
                out.pop(json.dumps(row), None)
    return sorted(out.values(), key=lambda row: list(row.values())[0])


def write(table: Table, **columns: list[Any]) -> None:
    with table.writer(missing="null") as writer:
        writer.write(pa.table(columns))


def check(table: Table, path: Path, keyed: bool) -> None:
    before = connect(warehouse=str(path / "warehouse")).table("db.t")
    write(table, id=pa.array([1], pa.int32()), name=["a"])
    dead = before.writer()
    dead.write(pa.table({"id": pa.array([1 if keyed else 9], pa.int32()), "name": ["dead"]}))
    dead.flush()
    names = [RenameColumn(("id",), "k"), RenameColumn(("name",), "id"), AddColumn(("name",), BIGINT)]
    table.alter(*names, AddColumn(("n",), BIGINT), ChangeType(("name",), STRING))
    write(table, k=pa.array([2], pa.int32()), id=["b"], name=["new"], n=[2**40])
    write(before, id=pa.array([3], pa.int32()), name=["c"])
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)
    wanted = [
        {"k": 1, "id": "a", "name": None, "n": None},
        {"k": 2, "id": "b", "name": "new", "n": 2**40},
        {"k": 3, "id": "c", "name": None, "n": None},
    ]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == wanted
    if table.logical.changelog_mode == "upsert":
        last = {row["k"]: row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()}
        assert [{n: v for n, v in row.items() if n != "_row_kind"} for _, row in sorted(last.items())] == wanted
    else:
        assert changes(table) == wanted
        assert changes(before) == [{"id": row["k"], "name": row["id"]} for row in wanted]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_kafka(kafka: KafkaBroker, tmp_path: Path, form: str, mode: str) -> None:
    more = f", 'log-store.address' = '{kafka.bootstrap}', 'log-store.drop-with-table' = 'true'"
    check(make(tmp_path, more + options(form, mode), key_of(mode)), tmp_path, bool(mode))


@pytest.mark.pulsar
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_pulsar(pulsar_server: PulsarServer, tmp_path: Path, form: str, mode: str) -> None:
    check(on(pulsar_server, tmp_path, key_of(mode), options(form, mode)), tmp_path, bool(mode))


def options(form: str, mode: str) -> str:
    return f", 'log-store.data-format' = '{form}'" + (f", 'log.changelog-mode' = '{mode}'" if mode else "")


def key_of(mode: str) -> str:
    return ", primary key (id)" if mode else ""

"""Writers of a table with a key step by step, and what every reader of it must find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.table.committer import Committer
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.register import register_writer
from lakelog.table.task_writer import TaskWriter
from lakelog.table.waiting_epochs import waiting_epochs
from log_tables import files, folded, rows

Rows = list[tuple[int, str]]
FORMS = [("upsert", "debezium-json"), ("upsert", "arrow"), ("all", "debezium-json"), ("all", "arrow")]


class Died(BaseException):
    """The process is killed."""


def without_log(tmp_path: Path) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    return lake.table("db.t")


def attempt(table: DynamicTable, writer: str, epoch: int, given: pa.Table) -> TaskWriter:
    register_writer(table, writer)
    task = TaskWriter(table, writer, epoch, 0)
    task.write(given.to_batches()[0])
    return task


def decided(table: Table, writer: str, epoch: int, *ids: int, name: str = "") -> Committer:
    """A streaming query that has decided an epoch and not sealed it."""
    task = attempt(table.logical, writer, epoch, rows(*ids, name=name or f"{writer}{epoch}"))
    committer = Committer(table.logical, writer)
    committer.commit(epoch, [task.finish()])
    return committer


def write(table: Table, *ids: int, name: str, kind: str = "+I") -> None:
    with table.writer() as writer:
        writer.write(rows(*ids, name=name, kinds=[kind] * len(ids)))


def transactional(table: Table, start: str = "earliest") -> Rows:
    found: dict[int, str] = {}
    for batch in table.tail(start, stop="latest", options={"log.consistency": "transactional"}):
        for row in batch.to_pylist():
            if row["_row_kind"] in ("+I", "+U"):
                found[row["id"]] = row["name"]
            elif row["_row_kind"] == "-D":
                found.pop(row["id"], None)
    return sorted(found.items())


def check(table: Table, want: Rows) -> None:
    """At once, behind a seal, and by every reader."""
    for moment in ("at once", "sealed"):
        assert files(table) == want, moment
        if table.log is not None:
            assert folded(table) == want, moment
            assert files(table, **{"read.mode": "union"}) == want, moment
            if table.logical.changelog_mode == "all":
                assert {"dead", "lost"}.isdisjoint(name for _, name in added_up(table)), moment
        table.seal()
    if table.log is not None:
        assert transactional(table) == want
        assert transactional(table, "latest-full") == want
    assert waiting_epochs(table.logical).waiting == ()


def added_up(table: Table) -> Counter[tuple[int, str]]:
    """What a consumer of a log of changes has that adds up rows: row → how often."""
    found: Counter[tuple[int, str]] = Counter()
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            found[row["id"], row["name"]] += 1 if row["_row_kind"][0] == "+" else -1
    return Counter({row: count for row, count in found.items() if count})

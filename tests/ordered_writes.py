"""Writers of a table with a key step by step, and what every reader of it must find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changelogs
from lakelog import connect
from lakelog.lake.table import Table
from lakelog.logstore.protocol.healing_plan import Healing
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import take_over
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write import table_writer as writer_module
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, rows, silence

Rows = list[tuple[int, str]]
FORMS = [("upsert", "debezium-json"), ("all", "arrow")]
"""Each mode and each format of a log once; ``test_log_after_alter`` crosses them."""


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
    table.write(rows(*ids, name=name, kinds=[kind] * len(ids)))


def transactional(table: Table, start: str = "earliest") -> Rows:
    return folded(table, start, **{"log.consistency": "transactional"})


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
    return changelogs.added_up(table.tail("earliest", stop="latest"))


CHANGED = [(1, "stream0"), (4, "updated"), (5, "inserted"), (6, "new")]


def change(table: Table) -> None:
    write(table, 3, name="x", kind="-D")
    write(table, 4, name="updated", kind="+U")
    write(table, 5, 6, name="inserted")
    write(table, 6, name="new")


def dies_before_its_snapshot(table: Table, monkeypatch: pytest.MonkeyPatch, *ids: int, name: str) -> str:
    """A batch write that is killed between its decision and its snapshot; the writer."""
    before = set(table.logical.registered.writers())

    def died(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "seal_in_turn", died)
        with pytest.raises(Died):
            write(table, *ids, name=name)
    (name,) = set(table.logical.registered.writers()) - before
    return name


def open_write(table: Table, *ids: int, name: str) -> tuple[TableWriter, str]:
    """A batch write that is under way: its rows are in the log; and its writer."""
    before = set(table.logical.registered.writers())
    writer = table.writer()
    writer.write(rows(*ids, name=name))
    writer.flush()
    (made,) = set(table.logical.registered.writers()) - before
    return writer, made


def while_it_heals(monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    """Runs a step once, between what a healer has read and what it appends because of it."""
    plan, ran = Healing.plan, []

    def planned(self: Healing, region: pa.Table, gone: range = range(0)) -> Any:
        found = plan(self, region, gone)
        if found and not ran:
            ran.append(True)
            step()
        return found

    monkeypatch.setattr(Healing, "plan", planned)


def take_back_while_a_row_comes(table: Table, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """A live writer appends rows while those of a dead one are taken back, then ``commits``, ``aborts`` or ``dies``."""
    write(table, *range(8), name="r0")
    _, dead = open_write(table, *range(8), name="dead")
    live, name = open_write(table, 99, name="r1")
    silence(table, dead)

    def comes() -> None:
        live.write(rows(*range(0, 8, 2), name="r1"))
        live.flush()

    while_it_heals(monkeypatch, comes)
    assert list(take_over(table.logical)) == [dead]
    if end == "commits":
        live.commit()
        live.close()
    elif end == "aborts":
        live.close()
    else:
        silence(table, name)
        assert list(take_over(table.logical)) == [name]
    r1 = [*range(0, 8, 2), 99] if end == "commits" else []
    check(table, sorted([*((n, "r1") for n in r1), *((n, "r0") for n in range(8) if n not in r1)]))

"""A batch write dies behind each of its changes of a real storage, and the next writer carries on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults import DIE_AFTER, Call, Died, FaultPlan, FaultyFileIO
from lakelog.lake.table import Table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, rows, silence
from servers.warehouse import Warehouse


def make(warehouse: Warehouse, log: Path) -> Table:
    """A table of two buckets on this storage, whose log is on the local disk."""
    lake = warehouse.connect(catalog_options={"catalog.external-paths": str(log)})
    lake.sql(
        "create database db; create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ("
        "'bucket' = '2', 'write-only' = 'true', 'log-store.enabled' = 'true', 'log-store.type' = 'embedded', "
        # no lease is renewed meanwhile: the calls of the storage are numbered
        f"'log-store.address' = '{log}/log.sqlite', 'log.writer-timeout' = '1 h')"
    )
    return lake.table("db.t")


def dies(table: Table, number: int) -> tuple[bool, list[Call]]:
    """A write of 1, 2 and 100 + number whose process is killed behind a change; whether it ended before, and its calls.

    Its lease has run out then.
    """
    plan = FaultPlan({number: DIE_AFTER})
    dying = DynamicTable(replace(table.logical.location, io=FaultyFileIO(table.logical.io, plan)))
    try:
        with TableWriter(dying) as writer:
            writer.write(rows(1, 2, 100 + number, name=f"dead{number}"))
        return True, plan.calls
    except Died:
        for name in table.logical.registered.writers():
            if table.logical.registered.find(name) is not None:
                silence(table, name)
        return False, plan.calls


def is_decided(calls: list[Call]) -> bool:
    """Whether the link of the chain was made, by which the rows of a write count."""
    return any(call.name == "create" and "/lakelog/chain/" in call.path for call in calls)


def check_every_death(warehouse: Warehouse, log: Path) -> None:
    """All of a write is there when it was decided, and else nothing; both stores are equal; the next write is there."""
    table, want, before, decided = make(warehouse, log), dict[int, str](), 0, 0
    for number in range(1, 200):
        ended, calls = dies(table, number)
        if is_decided(calls):
            want |= dict.fromkeys((1, 2, 100 + number), f"dead{number}")
        before, decided = before + (not is_decided(calls)), decided + is_decided(calls)
        assert files(table) == sorted(want.items()), f"at once behind {calls[-1]}"
        table.write(rows(1, 3, name=f"next{number}"))
        want |= dict.fromkeys((1, 3), f"next{number}")
        found = {
            "files": files(table),
            "log": folded(table),
            "both": files(table, **{"read.mode": "union"}),
        }
        assert found == dict.fromkeys(found, sorted(want.items())), f"behind {calls[-1]}"
        if ended:
            break
    assert before >= 2, "it died before its decision"
    assert decided >= 5, "and behind it: amid the snapshot, and before its markers and its end"
    registered = table.logical.registered
    assert registered.all() == {}
    assert registered.remains(0) == registered.writers(), "leases without a registration go when they are old"
    assert table.health().findings == ()
    assert "healing" not in {need.kind for need in table.health().needs}


@pytest.mark.timeout(900)
def test_a_write_that_dies_after_a_change_on_a_server_is_atomic(warehouse: Warehouse, tmp_path: Path) -> None:
    check_every_death(warehouse, tmp_path)


@pytest.mark.slow
def test_a_write_that_dies_after_a_change_on_a_local_disk_is_atomic(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    check_every_death(Warehouse(str(tmp_path / "warehouse")), tmp_path / "log")

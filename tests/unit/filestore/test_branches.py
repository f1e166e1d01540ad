from __future__ import annotations

import pytest

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid


def write(table, store: FileStore, *rows) -> None:
    store.commit(CommitRequest(new_uuid(), 1, "APPEND", table.staged(*rows, store=store)))


def ids(store: FileStore) -> list[int]:
    return sorted(row["id"] for row in store.read_table(store.plan()).to_pylist())


def forward(store: FileStore, name: str) -> None:
    state = store.open_branch(name).latest_snapshot()
    assert state is not None
    store.restore(state, store.branches.unused_files(name))


def test_a_branch_goes_its_own_way_and_main_can_follow(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.store.branches.create("dev", snapshot_id=1)
    dev = table.store.open_branch("dev")
    write(table, dev, (0, 2, "dev", 1.0))
    table.insert((0, 3, "main", 1.0))
    assert (ids(dev), table.ids()) == ([1, 2], [1, 3])
    before = table.store.latest_snapshot()
    forward(table.store, "dev")
    assert table.ids() == [1, 2]
    assert [e["id"] for e in table.store.read_table(table.store.plan(before)).to_pylist()] == [1, 3]
    table.store.branches.delete("dev")
    assert table.ids() == [1, 2]
    assert table.store.branches.list() == []
    assert table.store.remove_orphans(0).files == ()


def test_an_empty_branch_has_the_schema_only(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.store.branches.create("dev")
    dev = table.store.open_branch("dev")
    assert (dev.latest_snapshot(), dev.schema) == (None, table.store.schema)
    write(table, dev, (0, 9, "dev", 1.0))
    forward(table.store, "dev")
    assert table.ids() == [9]


def test_names(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.store.branches.create("dev")
    table.store.branches.create("dev", if_not_exists=True)
    with pytest.raises(AlreadyExists):
        table.store.branches.create("dev")
    for bad in ("", "main", "7", "a/b", "a$b"):
        with pytest.raises(InvalidRequest):
            table.store.branches.create(bad)
    with pytest.raises(InvalidRequest, match="give one"):
        table.store.branches.create("x", tag="t", snapshot_id=1)
    with pytest.raises(NotFound, match="did you mean 'dev'"):
        table.store.open_branch("dve")
    for missing in (lambda: table.store.branches.create("x", "t"), lambda: table.store.branches.delete("main")):
        with pytest.raises(NotFound):
            missing()

"""The state of the log is read beside commits and expiry."""

from __future__ import annotations

import pytest

from lakelog.errors import NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.model.log_state import LogState, WriterState, newest_state, state_at

STATE = LogState({"w": WriterState(7, {}, 0, False)}, {})


def make_store() -> FileStore:
    schema = new_schema([("id", parse_type("INT"), None)])
    io = MemoryFileIO(new_uuid())
    io.write("/t/schema/schema-0", schema.to_json())
    return FileStore(io, "/t", schema)


def commit(store: FileStore, identifier: int, state: LogState | None = None):
    properties = {} if state is None else state.to_properties()
    return store.commit(CommitRequest("me", identifier, "APPEND", properties=properties, allow_empty=True))


def test_a_state_that_expired_while_it_was_read_is_not_taken_for_none() -> None:
    store = make_store()
    commit(store, 1, STATE)
    old = commit(store, 2)
    commit(store, 3, STATE)
    store.io.delete(store.paths.snapshot(1))
    with pytest.raises(NotFound, match="read it again"):
        state_at(store, old)
    assert newest_state(store)[1] == STATE


def test_a_table_of_another_engine_has_no_state_after_expiry_either() -> None:
    store = make_store()
    for n in (1, 2):
        newest = commit(store, n)
    store.io.delete(store.paths.snapshot(1))
    assert state_at(store, newest) == LogState()

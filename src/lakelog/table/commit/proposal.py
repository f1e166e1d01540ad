"""Proposed epochs: a replacement of rows beside a log of input rows, which its snapshot decides (RFC 21)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, WriterState, newest_state, state_at


def settle(table: DynamicTable, writer: str, verified: Mapping[int, int] | None = None) -> bool:
    """Ends the wait for a proposed epoch; returns whether a snapshot has it.

    Called by the process that takes over from the writer, and by the writer if it does not know the outcome. If no
    snapshot has the epoch, a snapshot without rows ends the writer, so that its own commit fails from then on. The
    second call stores the offsets up to which its rows are taken back. Raises Unavailable, CommitUnknown,
    CommitConflict: call it again.
    """
    nothing = EpochRecord(writer, 0, now_ms(), (), once=True, ended=True)
    ended = WriterState(0, verified or {}, nothing.time_ms, once=True, ended=True, digest=nothing.digest)

    def check(state: LogState) -> None:
        known = state.writers.get(writer)
        if known is not None and (not known.ended or known.verified or not verified):
            raise _Settled(is_committed=not known.ended)

    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        state = state_at(table.store, latest)
        check(state)
        # The offsets of the table stay: the writer may have been registered here by a process of an earlier table of
        # this name, with the offsets of the log of that one.
        number = 1 if latest is None else latest.id + 1
        return replace(state, writers={**state.writers, writer: replace(ended, number=number)}).to_properties()

    try:
        check(newest_state(table.store)[1])
        table.store.commit(
            CommitRequest(f"end-{new_uuid()}", 0, APPEND, prepare=properties, allow_empty=True, first_try=True)
        )
    except _Settled as found:
        return found.is_committed
    return False


class _Settled(Exception):
    """A snapshot has decided the epoch."""

    def __init__(self, is_committed: bool) -> None:
        super().__init__(is_committed)
        self.is_committed = is_committed

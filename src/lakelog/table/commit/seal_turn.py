"""Seals after a commit: of several writers that commit at the same time, one seals the epochs of all (RFC 11).

The turn to seal is a file, ``lakelog/seal-turn``, that its holder creates if absent and deletes after its seal. It only
saves work. Two holders at once are two seals at once, of which one loses. A holder that dies or stops leaves the file;
then the others wait for ``_TIMEOUT_S`` once, and one of them seals and deletes it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms, pause
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState, newest_state

_RECENT_MS: Final = 10_000
"""Age of the last seal of another writer up to which the table counts as shared."""
_TIMEOUT_S: Final = 3.0
"""Time without a seal after which a writer no longer waits for the holder of the turn."""
_SEALS_S: Final = 6.0
"""Time by which the seals of others prolong the wait. They would do so for ever if they never took these epochs."""
_PAUSE_S: Final = (0.005, 0.2)
"""The first and the longest pause between two looks at the newest snapshot."""
_CLOSED: Final[deque[str]] = deque(maxlen=1000)
"""Writers that this process has closed lately: whoever opens one after the other is alone."""


def seal_in_turn(committer: Committer, marks: bool = False) -> Snapshot | None:
    """``seal``, or None once another writer has sealed the epochs of this one.

    The last commit of ``committer`` has decided and healed. While only this process commits, with one writer after the
    other, this is ``seal`` and makes no further requests. Markers of epochs that another writer seals are appended by
    that writer. If it dies before, the next seal of this one does so. With ``marks``, which the last seal of a writer
    has, they are in the log on return. Raises as ``seal``.
    """
    table, known = committer.table, committer.verified()
    if known is None or not _is_shared(committer.state, committer.writer):
        return seal(committer)
    seen, number, end = committer.state.writers, 0, monotonic_s() + _TIMEOUT_S
    latest = end + _SEALS_S
    while not _take(table) and monotonic_s() < end:
        pause(number, *_PAUSE_S)
        number += 1
        state = newest_state(table.store)[1]
        if state.sealed_epoch(committer.writer) >= known.epoch:
            committer.know(state)
            committer.search.take()  # the other one has made it
            return seal(committer) if marks else None
        if state.writers != seen:  # the snapshots of compactions and of other engines seal nothing
            seen, end = state.writers, min(latest, monotonic_s() + _TIMEOUT_S)
    try:
        return seal(committer)
    finally:
        with contextlib.suppress(LakelogError):
            table.io.delete(_path(table))


def close_writer(writer: str) -> None:
    """Notes that a writer of this process commits no more."""
    _CLOSED.append(writer)


def _is_shared(state: LogState, writer: str) -> bool:
    """True if another writer, which this process has not closed, has sealed not long ago."""
    oldest = now_ms() - _RECENT_MS
    recent = (name for name, other in state.writers.items() if other.time_ms > oldest and name != writer)
    return any(name not in _CLOSED for name in recent)


def _take(table: DynamicTable) -> bool:
    """Takes the turn; False if another writer has it. If the storage does not tell, this one seals at once."""
    try:
        return table.io.create(_path(table), b"")
    except LakelogError:
        return True


def _path(table: DynamicTable) -> str:
    return f"{table.decided.table_path}/lakelog/seal-turn"

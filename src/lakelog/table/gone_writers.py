"""Finishes what writers that are gone have decided, so that no transactional reader waits for them for ever."""

from __future__ import annotations

import logging
import threading
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.logs import fields
from lakelog.options.log import WRITER_TIMEOUT
from lakelog.spec.snapshot import Snapshot
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.seal import seal_writer

_LOG = logging.getLogger("lakelog.seal")
_LOOK_EVERY_S: Final = 60.0
_LOOKED: dict[str, float] = {}
"""When this process looked at a table last."""
_LOCK = threading.Lock()


def finish_gone_writers(table: DynamicTable) -> list[Snapshot]:
    """Seals, and tells, epochs that were decided ``log.writer-timeout`` ago and whose writer has not done it itself.

    What is in a snapshot the next seal of anybody tells as well; what waits for its snapshot would wait on. Its rows
    count since they were decided: batch reads have them. An undecided epoch is left as it is, nobody waits for it.
    Raises Unavailable, CommitConflict.
    """
    oldest = now_ms() - table.options.need(WRITER_TIMEOUT).total_seconds() * 1000
    made = []
    for writer in table.staged.writers():
        epochs = table.staged.epochs(writer)
        record = table.staged.read(writer, epochs[-1]) if epochs else None
        if record is not None and record.time_ms < oldest:
            snapshot = seal_writer(table, writer)
            made += [] if snapshot is None else [snapshot]
    return made


def finish_gone_quietly(table: DynamicTable) -> None:
    """``finish_gone_writers`` beside a write, once a minute by a process at most; a failure is logged only."""
    if table.log is None:
        return
    with _LOCK:
        if monotonic_s() < _LOOKED.get(table.path, float("-inf")) + _LOOK_EVERY_S:
            return
        _LOOKED[table.path] = monotonic_s()
    try:
        finish_gone_writers(table)
    except LakelogError as failure:
        told = fields(table=table.name)
        _LOG.warning("table %s: epochs of writers that are gone wait on: %s", table.name, failure, extra=told)

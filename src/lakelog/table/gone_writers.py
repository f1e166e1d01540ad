"""Finishes what writers that are gone have left: decided epochs get their snapshot, open ones are taken back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.logs import fields
from lakelog.io.machine import is_running, machine_identity
from lakelog.options.log import WRITER_TIMEOUT
from lakelog.spec.snapshot import Snapshot
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.end_writer import end_writer
from lakelog.table.log_position import headers_of
from lakelog.table.log_scan import LogScan
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
    oldest = _oldest_ms(table)
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


def is_gone(table: DynamicTable, writer: str, active_ms: int) -> bool:
    """Whether a batch writer that was heard of last at ``active_ms`` will most likely never commit.

    Its process has ended on this machine; or nobody can tell, and it has decided nothing for ``log.writer-timeout``
    (``heal_gone_writers`` then looks at its records before it believes it). A writer without a mark is never gone.
    """
    mark = table.staged.batch_mark(writer)
    if mark is None:
        return False
    if mark.process and mark.machine == machine_identity():
        return not is_running(mark.process)
    return active_ms < _oldest_ms(table)


def heal_gone_writers(table: DynamicTable) -> Iterator[tuple[str, Snapshot | None]]:
    """Ends the batch writers that are gone, one after the other: (writer, the snapshot that says so).

    What is decided gets its snapshot, what is open is decided as empty: the log is healed to that and told ``abort``,
    and the writer is refused (Fenced) should it come back. None for one that has appended within
    ``log.writer-timeout``: it is left alone. Called by maintenance; the caller may stop between two. Raises
    Unavailable, CommitConflict; the next call goes on.
    """
    for writer in gone_batch_writers(table):
        if _is_heard(table, writer):
            yield writer, None
            continue
        made = end_writer(table, writer)
        if not table.staged.epochs(writer):  # its control records are in the log
            table.staged.forget_writer(writer)
        yield writer, made


def gone_batch_writers(table: DynamicTable) -> list[str]:
    """The batch writers that are gone and have not been ended. Raises Unavailable."""
    registered = table.staged.registered()
    out = []
    for writer, found in registered.items():
        record = table.staged.read(writer, found.newest_epoch) if found.is_batch and found.newest_epoch >= 0 else None
        active = max(found.time_ms, 0 if record is None else record.time_ms)
        if found.is_batch and is_gone(table, writer, active):
            out.append(writer)
    return out


def _is_heard(table: DynamicTable, writer: str) -> bool:
    """Whether a writer that may be on another machine has appended something lately."""
    mark = table.staged.batch_mark(writer)
    if mark is not None and mark.process and mark.machine == machine_identity():
        return False
    scan, oldest = LogScan(table), _oldest_ms(table)
    ends, since = scan.reader.end_offsets(), scan.reader.offsets_at(int(oldest))
    for bucket, end in ends.items():
        for records in scan.records_between(bucket, since.get(bucket, end), end):
            if bool((headers_of(records)["writer"] == writer).any()):
                return True
    return False


def _oldest_ms(table: DynamicTable) -> float:
    return now_ms() - table.options.need(WRITER_TIMEOUT).total_seconds() * 1000

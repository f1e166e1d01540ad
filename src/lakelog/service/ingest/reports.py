"""What an ingest reports: to its caller, and about each half minute to the health of its tables.

A report that cannot be written never ends an ingest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError, NotFound
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.machine import process_space
from lakelog.lake import Lake
from lakelog.service.ingest.connection import Server
from lakelog.service.ingest.source import SlotState, Source
from lakelog.service.ingest.target import Target
from lakelog.table.health.stats import DROPPED, ENDED, FAILED, IngestStats

_LOG: Final = logging.getLogger("lakelog.ingest")
_EVERY_S: Final = 30.0


@dataclass(frozen=True)
class IngestProgress:
    """The state of a run. ``phase`` is copy, stream or wait.

    ``rows`` are those of the report: of a copy so far (of about ``expected``), or the changes committed since the last
    report. ``lag_s`` is the age of the newest committed transaction at its commit, ``lag_bytes`` the WAL that the slot
    has not been read yet, ``position`` the LSN up to which all tables are. ``is_last`` is True for the last report of
    a copy. ``why`` is the reason of a wait.
    """

    phase: str
    table: str = ""
    rows: int = 0
    expected: int = 0
    lag_s: float = 0.0
    lag_bytes: int = 0
    position: str = ""
    is_last: bool = False
    why: str = ""


@dataclass(frozen=True)
class TableStatus:
    """A table of an ingest: the LSN that it has ("" before its copy, or if it will be copied again), and its slot.

    ``held_bytes`` is the WAL that the server keeps for the slot; ``is_active`` is True while a process ingests.
    """

    table: str
    source: str
    position: str
    slot: str
    has_slot: bool
    is_active: bool
    held_bytes: int


class Reports:
    """The reports of one ingest, also across its connections."""

    def __init__(self, server: Server, slot: str) -> None:
        self._server, self._slot = server, slot
        self._state = SlotState(0, 0, False)
        self._next_s = float("-inf")

    def write(
        self,
        targets: Iterable[Target],
        source: Source,
        state: str,
        lag_s: float = 0.0,
        unread_bytes: int = 0,
        why: str = "",
    ) -> None:
        """Writes a report if the last one is old, or if the state is an end."""
        if state not in (ENDED, FAILED) and monotonic_s() < self._next_s:
            return
        self._next_s = monotonic_s() + _EVERY_S
        try:
            with self._server.errors():
                self._state = source.slot(self._slot) or SlotState(0, 0, False, DROPPED)
        except LakelogError:  # the connection has ended: what was known before is what is known
            _LOG.debug("the state of slot %s is unknown", self._slot, exc_info=True)
        stats = IngestStats(
            "",
            self._server.name,
            self._slot,
            state,
            now_ms(),
            lag_s=round(lag_s, 3),
            unread_bytes=unread_bytes,
            held_bytes=self._state.held_bytes,
            slot_state=self._state.wal_status,
            why=why,
            machine=process_space(),
            process=os.getpid(),
        )
        for target in targets:
            try:
                target.report(stats)
            except LakelogError as error:
                _LOG.warning("table %s: the report of the ingest was not written: %s", target.name, error)


def forget_reports(lake: Lake, database: str, slot: str) -> None:
    """Removes the reports of a slot that does not exist any more; best effort."""
    try:
        names = lake.list_tables(database)
    except NotFound:
        return
    for name in names:
        try:
            table = lake.table(name).logical
            report = IngestStats.read(table.io, table.path)
            if report is not None and report.slot == slot:
                table.io.delete(report.path(table.path))
        except LakelogError as error:
            _LOG.warning("table %s: the report of the ingest was not removed: %s", name, error)

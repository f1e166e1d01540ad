"""The cuts of one run: between two transactions of the source, a snapshot of each table at the same position (RFC 24).

A cut is made after a commit of all tables, when it is due: not more often than the tables make snapshots anyway, and
with at most a fifth of the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from lakelog.errors import CommitUnknown, LakelogError, NotFound
from lakelog.io.clock import monotonic_s
from lakelog.lake import Lake
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.service.ingest.position import Position
from lakelog.service.ingest.target import Target
from lakelog.table.cuts.writer import CutTable, forget_cuts, record_cut

_LOG = logging.getLogger("lakelog.ingest")
_SHARE: Final = 4
"""Length of the pause after a cut, in multiples of the time that the cut has taken."""


class Cuts:
    """Makes the cuts of a run over its tables, whose group has the name of the slot.

    ``stays`` is called between two tables, so that the server keeps the connection.
    """

    def __init__(self, group: str, interval_s: float, stays: Callable[[], None]) -> None:
        self._group, self._interval_s, self._stays = group, interval_s, stays
        self._due_s = float("-inf")
        self._made: Mapping[str, tuple[int, Snapshot]] = {}

    def make(self, targets: Mapping[int, Target], reached: int, is_last: bool = False) -> None:
        """Makes a cut if one is due and tables have changed since the last one.

        ``reached`` is the LSN up to which the run has read, between two transactions. The cut is left out while a table
        is beyond that, because a former run had committed more of it, or waits for a copy or a commit. Raises
        Unavailable, CommitConflict, InvalidRequest after a rollback.
        """
        here = Position(reached)
        if not targets or (monotonic_s() < self._due_s and not is_last):
            return
        if any(t.is_dirty or t.position is None or t.position > here for t in targets.values()):
            return
        if self._made.keys() == {t.name for t in targets.values()} and not any(
            map(self._has_changed, targets.values())
        ):
            return
        started_s = monotonic_s()
        members = self._members(targets)
        if members is not None:
            self._record(targets, members, here)
        now_s = monotonic_s()
        interval_s = max(t.snapshot_interval_s for t in targets.values())
        self._due_s = now_s + max(self._interval_s, interval_s, _SHARE * (now_s - started_s))

    def _has_changed(self, target: Target) -> bool:
        known = self._made.get(target.name)
        return known is None or known[0] != target.epoch

    def _members(self, targets: Mapping[int, Target]) -> dict[str, tuple[int, Snapshot]] | None:
        """Table → its newest epoch and a snapshot of it; None if a table has no such snapshot."""
        members: dict[str, tuple[int, Snapshot]] = {}
        for target in targets.values():
            if not self._has_changed(target):
                members[target.name] = self._made[target.name]
                continue
            snapshot = target.sealed()
            self._stays()
            if snapshot is None:
                return None
            members[target.name] = target.epoch, snapshot
        return members

    def _record(
        self, targets: Mapping[int, Target], members: Mapping[str, tuple[int, Snapshot]], here: Position
    ) -> None:
        tables = [CutTable(target.logical, members[target.name][1]) for target in targets.values()]
        try:
            if record_cut(self._group, tables, str(here)) is not None:
                self._made = members
        except (CommitUnknown, NotFound) as why:  # the next cut has another number
            self._made = {}
            _LOG.warning("cut of %s at %s was not recorded: %s", self._group, here, why)


def forget_ingested_cuts(lake: Lake, database: str, slot: str) -> None:
    """Removes the cuts of a slot that does not exist any more; best effort."""
    try:
        names = lake.list_tables(database)
    except NotFound:
        return
    for name in names:
        try:
            forget_cuts(lake.table(name).logical, slot)
        except LakelogError as why:
            _LOG.warning("table %s: the cuts of slot %s were not removed: %s", name, slot, why)

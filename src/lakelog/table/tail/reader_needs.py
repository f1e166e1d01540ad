"""What a named reader of committed rows needs of the log: more than the records after its position.

The rows of an epoch are before its commit marker, at which the reader emits them. If the reader stops between the two,
it needs rows before its position when it starts again, so the log must keep them. A reader that makes whole changes
builds its state again from the newest save, so it needs the records after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.io.clock import monotonic_s
from lakelog.logstore.clients import reader_for
from lakelog.table.log.position import LogPosition
from lakelog.table.log.register import NamedReaders
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import PublishedLinks
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.log_view import capture

_OBSERVE_EVERY_S: Final = 30.0
_RECORD_EVERY_S: Final = 1.0
_HOLD_EVERY_S: Final = 30.0
"""Interval at which a reader reports that it still reads its first snapshot."""

Offsets = Mapping[int, int]


@dataclass(frozen=True)
class Observation:
    """At one moment, all epochs with a row below ``floors`` had their commit markers below ``ends``."""

    floors: Offsets
    ends: Offsets


class ReaderNeeds:
    """The position of a named reader in the table's directory, and the first records that it needs.

    Once the reader has passed the ends of an observation, it needs nothing below the floors of that observation.
    """

    def __init__(self, table: DynamicTable, name: str, start: Offsets) -> None:
        """``start`` is the position of the reader. Raises Unavailable, NotFound."""
        self._table, self._name = table, name
        self._readers = NamedReaders(table.io, table.path)
        stored = self._readers.needed(name)
        self._needs = _lower(start, _unsealed_floors(table) if stored is None else stored)
        self._observed: Observation | None = None
        self._recorded: tuple[Offsets, Offsets] = {}, {}
        self._observed_s = self._recorded_s = float("-inf")

    def record(self, offsets: Offsets, first: Offsets | None = None, is_last: bool = False) -> None:
        """Stores a new position, at most once a second, and one that ``is_last`` always. Raises Unavailable.

        ``first`` are offsets from which the reader reads again at its next start, if they are before the position.
        """
        reported = (offsets, first or {})
        if not is_last and (reported == self._recorded or monotonic_s() < self._recorded_s + _RECORD_EVERY_S):
            return
        seen = self._observed
        if seen is not None and all(offsets.get(bucket, 0) >= end for bucket, end in seen.ends.items()):
            self._needs, self._observed = seen.floors, None
        if self._observed is None and monotonic_s() > self._observed_s + _OBSERVE_EVERY_S:
            self._observed, self._observed_s = observe(self._table), monotonic_s()
        self._readers.record(self._name, offsets, _lower(_lower(offsets, self._needs), reported[1]))
        self._recorded, self._recorded_s = reported, monotonic_s()


class NamedProgress:
    """Stores the progress of a named reader with the table: its position, its needs, the snapshot that it reads.

    So the log and the snapshot stay as long as the reader needs them.
    """

    def __init__(self, table: DynamicTable, name: str, start: LogPosition) -> None:
        """Raises InvalidRequest for a name that is no file name, Unavailable, NotFound."""
        self._consumers, self._name = table.store.consumers, name
        self._needs = ReaderNeeds(table, name, start.offsets)
        self._held_s = float("-inf")

    def keep(self, position: LogPosition, first: Offsets, is_last: bool = False) -> None:
        """Stores a position, at most once a second unless it ``is_last``; ``first`` as in ``ReaderNeeds.record``."""
        self._needs.record(position.offsets, first, is_last)
        if position.full is not None and position.full[0]:
            if monotonic_s() > self._held_s + _HOLD_EVERY_S:
                self._consumers.record(self._name, position.full[0])
                self._held_s = monotonic_s()
        elif self._held_s < float("inf"):
            self._held_s = float("inf")
            if self._consumers.position(self._name) is not None:
                self._consumers.delete(self._name)


def observe(table: DynamicTable) -> Observation | None:
    """An observation of now; None if commit markers may be missing. Raises Unavailable, NotFound."""
    floors = _unsealed_floors(table)
    if waiting_epochs(table).sealed:  # an epoch record is deleted after its markers
        return None
    ends = reader_for(LogScan(table).location).end_offsets()
    return Observation(_lower(ends, floors), ends)


def _unsealed_floors(table: DynamicTable) -> Offsets:
    """Bucket → an offset below which there is no row of an epoch that is not in a snapshot now."""
    if table.publishes:
        return PublishedLinks.of(table).last().since
    view = capture(table)
    return _lower(view.ends, view.starts([view.state.offsets, *(w.sealed_up_to for w in view.writers.values())]))


def _lower(first: Offsets, second: Offsets) -> Offsets:
    """The smaller offset of each bucket of ``first``."""
    return {bucket: min(offset, second.get(bucket, offset)) for bucket, offset in first.items()}

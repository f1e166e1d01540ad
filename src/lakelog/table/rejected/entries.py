"""The entries of rejected rows: which files of rows count in a state of the table (RFC 16).

``lakelog/rejected/rows/<uuid>.parquet`` are the rows that one attempt left out. An *entry* names such a file. The
entries of a snapshot are in *lists*, whose names are in the log state of the snapshot:
``lakelog/rejected/<time>-<entries>-<uuid>.json``. No file of either kind ever changes. Each seal that rejects or
replays rows adds a list to those of the snapshot before it, and merges it with those that are not larger. A decided
epoch that waits for its snapshot has its entries in its record.

    time      of the newest entry, ms since 1970 in 13 digits; entries  their number
    content   JSON: {"entries": [[time, writer, epoch, file, rows] …]}
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.gc.orphans import DAY_MS
from lakelog.io.clock import now_ms
from lakelog.io.logs import fields
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.options.rejected import REJECTED_RETENTION
from lakelog.paimon.types.checked_values import checked, parsing, read_as
from lakelog.table.model.attempt import RejectedRows
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER, LogState, state_of
from lakelog.table.model.waiting_epochs import waiting_epochs

_LOG = logging.getLogger("lakelog.rejected")
REPLAY_OF_LOG: Final = "replay-log-"
"""Start of the writer id of a replay of log records, which writes files only; a UUID follows."""
REPLAY_OF_ROWS: Final = "replay-rows-"
"""The same for rows of programs."""
_READS: Final = 3
"""Number of times that a state is read again because a list of it is gone: its snapshot is no longer the newest."""


@dataclass(frozen=True)
class RejectedEntry:
    """A file of rejected rows that counts: its decision (time in ms since 1970), and the number of its rows."""

    time_ms: int
    writer: str
    epoch: int
    file: str
    rows: int

    @staticmethod
    def of(record: EpochRecord) -> list[RejectedEntry]:
        """The entries of a decided epoch. Rows that are rejected again keep the time of their first decision."""
        return [
            RejectedEntry(one.time_ms or record.time_ms, record.writer, record.epoch, one.file, one.rows)
            for attempt in record.attempts
            for one in attempt.rejected
            if one.file
        ]

    @staticmethod
    def parsed(values: Any) -> RejectedEntry:
        """An entry from JSON. Raises what ``parsing`` makes Corrupt of."""
        time_ms, writer, epoch, file, rows = values
        RejectedRows.checked(file, rows, time_ms)
        return checked(RejectedEntry(time_ms, writer, epoch, file, rows))

    @property
    def is_of_log(self) -> bool:
        """True if its rows are records of the log, which no writer sent."""
        return self.writer == FOLLOWER or self.writer.startswith(REPLAY_OF_LOG)


@dataclass(frozen=True)
class UnreadableEntries:
    """A list, or an entry in it, that is not as it was written: its path, and what is wrong."""

    path: str
    why: str


@dataclass(frozen=True)
class FoundEntries:
    """The entries that are neither replayed nor expired, the oldest first, and what cannot be read of their lists."""

    entries: tuple[RejectedEntry, ...] = ()
    unreadable: tuple[UnreadableEntries, ...] = ()

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.entries)


@dataclass(frozen=True)
class RejectedEntries:
    """The entries and files of rejected rows of one table. All branches share the files, as they share data files."""

    table: DynamicTable

    @property
    def io(self) -> FileIO:
        return self.table.io

    @property
    def root(self) -> str:
        return f"{self.table.path}/lakelog/rejected"

    def path(self, file: str) -> str:
        """The path of a file of rows."""
        return f"{self.root}/rows/{file}"

    @property
    def oldest_ms(self) -> int:
        """The time (ms since 1970) up to which entries are hidden and their files deleted."""
        return now_ms() - self.kept_ms

    @property
    def kept_ms(self) -> int:
        """How long entries are kept."""
        return int(self.table.options.need(REJECTED_RETENTION).total_seconds() * 1000)

    def visible(self, is_waiting_too: bool = True) -> FoundEntries:
        """The entries of the newest snapshot, and by default of the epochs that wait for theirs. Raises Unavailable."""
        if not self.io.list(self.root):  # the first file of rows is older than the first decision
            return FoundEntries()
        for _ in range(_READS):
            now = waiting_epochs(self.table)
            sealed, unreadable, is_gone = self._sealed(now.state)
            if not is_gone:
                break
        added = [entry for record in now.waiting for entry in RejectedEntry.of(record)] if is_waiting_too else []
        taken, oldest = taken_by(now.waiting), self.oldest_ms
        by_file = {e.file: e for e in (*sealed, *added) if e.file not in taken and e.time_ms > oldest}
        return FoundEntries(tuple(sorted(by_file.values(), key=lambda e: (e.time_ms, e.file))), unreadable)

    def following(self, state: LogState, records: Sequence[EpochRecord]) -> LogState:
        """The state of a snapshot with these epochs: writes a list if they reject or replay rows.

        A list that cannot be read stays until ``rejected.retention``, and the others go on without it. Raises
        Unavailable.
        """
        taken = taken_by(records)
        added = [entry for record in records for entry in RejectedEntry.of(record) if entry.file not in taken]
        if not added and not taken:
            return state
        kept: list[str] = []
        for name in state.rejected:
            entries = self._list(name) if taken else None
            if entries is None or not any(entry.file in taken for entry in entries.entries):
                kept.append(name)
            else:
                added += [entry for entry in entries.entries if entry.file not in taken]
        while kept and _parts(kept[-1])[1] <= len(added):
            entries = self._list(kept[-1])
            if entries is None or entries.unreadable:
                break
            added = [*entries.entries, *added]
            kept.pop()
        oldest = self.oldest_ms
        if any(time_ms <= oldest for time_ms in (*(_parts(name)[0] for name in kept), *(e.time_ms for e in added))):
            oldest = storage_now_ms(self.io, self.table.path) - self.kept_ms  # this machine's clock may be ahead
        kept = [name for name in kept if _parts(name)[0] > oldest]
        added = [entry for entry in added if entry.time_ms > oldest]
        return replace(state, rejected=(*kept, *([self._write(added)] if added else [])))

    def of_states(self, states: Iterable[LogState]) -> tuple[dict[str, int], set[str], bool]:
        """File of rows → time of its entry, and the names of lists, in some states; whether a list is unreadable."""
        names = {name for state in states for name in state.rejected}
        found = {name: self._list(name) for name in names}
        is_bad = any(one is None or one.unreadable for one in found.values())
        entries = [entry for one in found.values() if one is not None for entry in one.entries]
        times: dict[str, int] = {}
        for entry in entries:
            times[entry.file] = max(entry.time_ms, times.get(entry.file, 0))
        return times, names, is_bad

    def _sealed(self, state: LogState) -> tuple[list[RejectedEntry], tuple[UnreadableEntries, ...], bool]:
        """The entries of a snapshot, what is unreadable, and whether a list is gone."""
        entries: list[RejectedEntry] = []
        unreadable: list[UnreadableEntries] = []
        is_gone = False
        for name in state.rejected:
            if _parts(name)[0] <= self.oldest_ms:
                continue
            try:
                found = self._read(name)
            except (Corrupt, NotFound) as why:
                is_gone = is_gone or isinstance(why, NotFound)
                unreadable.append(UnreadableEntries(f"{self.root}/{name}", str(why)))
            else:
                entries += found.entries
                unreadable += found.unreadable
        return entries, tuple(unreadable), is_gone

    def _list(self, name: str) -> FoundEntries | None:
        """A list; None, with a warning, if it cannot be read."""
        try:
            entries = self._read(name)
        except (Corrupt, NotFound) as why:
            self._warn(str(why))
            return None
        for one in entries.unreadable:
            self._warn(one.why)
        return entries

    def _read(self, name: str) -> FoundEntries:
        """The entries of a list; bad ones are unreadable. Raises NotFound, Corrupt if it is no list at all."""
        path = f"{self.root}/{name}"
        found = read_as(self.io, path, lambda data: list(orjson.loads(data)["entries"]))
        entries, unreadable = [], []
        for values in found:
            try:
                with parsing(path):
                    entries.append(RejectedEntry.parsed(values))
            except Corrupt as why:
                unreadable.append(UnreadableEntries(path, str(why)[:1_000]))
        return FoundEntries(tuple(entries), tuple(unreadable))

    def _write(self, entries: Sequence[RejectedEntry]) -> str:
        name = f"{max(e.time_ms for e in entries):013d}-{len(entries)}-{new_uuid()}.json"
        content = [[e.time_ms, e.writer, e.epoch, e.file, e.rows] for e in entries]
        self.io.write(f"{self.root}/{name}", orjson.dumps({"entries": content}))
        return name

    def _warn(self, why: str) -> None:
        about = fields(table=self.table.name)
        _LOG.warning("table %s: entries of rejected rows cannot be read: %s", self.table.name, why, extra=about)


def taken_by(records: Iterable[EpochRecord]) -> Collection[str]:
    """The files of rows that some epochs replay."""
    return {file for record in records for attempt in record.attempts for file in attempt.replays}


def _parts(name: str) -> tuple[int, int]:
    """The time of the newest entry in a list, and the number of entries."""
    time_ms, entries, _ = name.split("-", 2)
    return int(time_ms), int(entries)


def expire_rejected(branches: Sequence[DynamicTable], age_ms: int = DAY_MS, dry_run: bool = False) -> Mapping[str, int]:
    """Deletes files of rejected rows, and lists of entries; returns path → size of those that nothing names.

    ``branches`` are all branches of a table, main first. A file stays while a snapshot, a tag or a waiting epoch of any
    branch names it, at most ``rejected.retention`` from its decision on. One that nothing names is deleted after
    ``age_ms``, because its epoch may still be decided; if a list cannot be read, after the retention. Lists the files
    first, then reads what names them, so that files of an epoch decided or sealed meanwhile are named. Raises
    Unavailable.
    """
    entries = RejectedEntries(branches[0])
    files = [s for s in entries.io.list(f"{entries.root}/rows") if not s.is_dir]
    lists = [s for s in entries.io.list(entries.root) if not s.is_dir]
    now, kept_ms = now_ms(), entries.kept_ms
    if not any(s.mtime_ms <= now - min(kept_ms, age_ms) for s in (*files, *lists)):
        return {}
    now = now if dry_run else storage_now_ms(entries.io, entries.table.path)
    oldest, before = now - kept_ms, now - age_ms
    waiting = [entry for branch in branches for record in branch.decided.all() for entry in RejectedEntry.of(record)]
    states, is_bad = _states(branches)
    times, names, has_bad_list = entries.of_states(states)
    for entry in waiting:
        times[entry.file] = max(entry.time_ms, times.get(entry.file, 0))
    expired = [s for s in files if s.name in times and max(times[s.name], s.mtime_ms) <= oldest]
    limit = min(before, oldest) if is_bad or has_bad_list else before
    lost = [s for s in files if s.name not in times and s.mtime_ms <= limit]
    lost += [s for s in lists if s.name not in names and s.mtime_ms <= (min(before, oldest) if is_bad else before)]
    for status in () if dry_run else (*expired, *lost):
        entries.io.delete(status.path)
    return {status.path: status.size for status in lost}


def _states(branches: Sequence[DynamicTable]) -> tuple[list[LogState], bool]:
    """The log states of all snapshots and tags; whether one cannot be read."""
    states, is_bad = [], False
    for branch in branches:
        for root in branch.store.references.branch_roots():
            try:
                state = state_of(root.snapshot)
            except Corrupt:
                is_bad = True
            else:
                states += [] if state is None else [state]
    return states, is_bad

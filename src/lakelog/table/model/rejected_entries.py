"""The entries of rejected rows: which files of them count, and which of those a replay has taken (RFC 16).

``lakelog/rejected/rows/<uuid>.parquet`` are the rows that one attempt left out. A file counts if an *entry* names it:
``lakelog/rejected/<time>-<rows>-<epoch>-<kind>-<writer>``, of which a decided epoch has at most one. Its name follows
from the decision alone, so any process may create it, and twice is once. Until the epoch has an entry, the decision
itself is one: the epoch record, or the follower's state in the newest snapshot.

    time      of the decision, ms since 1970 in 13 digits; rows  number of rejected rows; kind  k, or r for a replay
    content   JSON: files [[name, rows] …], replays [name of an entry …]
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import now_ms
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.options.rejected import REJECTED_RETENTION
from lakelog.paimon.types.checked_values import read_as
from lakelog.table.model.attempt import RejectedRows
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER, LogState, WriterState
from lakelog.table.model.waiting_epochs import WaitingEpochs, waiting_epochs

_KEPT, _REPLAY = "k", "r"
_NAME: Final = re.compile(r"\d{13}-\d+-\d+-[kr]-.+")
REPLAY_OF_ROWS: Final = "replay-rows-"
"""Start of the writer id of a replay of rows of programs; its number follows."""
REPLAY_OF_LOG: Final = "replay-log-"
"""The same for records of the log, which a replay writes to files only."""


class _Name(NamedTuple):
    """The parts of an entry's name."""

    time_ms: int
    rows: int
    epoch: int
    kind: str
    writer: str

    @staticmethod
    def of(name: str) -> _Name:
        time_ms, rows, epoch, kind, writer = name.split("-", 4)
        return _Name(int(time_ms), int(rows), int(epoch), kind, writer)


@dataclass(frozen=True)
class RejectedEntry:
    """The rejected rows of one decided epoch, and the entries whose rows the epoch has written or rejected again."""

    time_ms: int
    writer: str
    epoch: int
    files: tuple[RejectedRows, ...]
    replays: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file. A replay is never older than what it takes, so that it is not forgotten first."""
        time_ms = max([self.time_ms, *(_Name.of(name).time_ms for name in self.replays)])
        kind = _REPLAY if self.replays else _KEPT
        return f"{time_ms:013d}-{self.rows}-{self.epoch}-{kind}-{self.writer}"

    @staticmethod
    def of(record: EpochRecord) -> RejectedEntry | None:
        """The entry of a decided epoch; None for one without rejected rows that replays nothing."""
        files = tuple(a.rejected for a in record.attempts if a.rejected is not None and a.rejected.file)
        replays = tuple(name for a in record.attempts for name in a.replays)
        if not files and not replays:
            return None
        return RejectedEntry(record.time_ms, record.writer, record.epoch, files, replays)

    @staticmethod
    def of_follower(state: WriterState | None) -> RejectedEntry | None:
        """The entry of the follower's last epoch, from the state in a snapshot."""
        if state is None or state.rejected is None:
            return None
        return RejectedEntry(state.time_ms, FOLLOWER, state.epoch, (state.rejected,))

    @property
    def is_of_log(self) -> bool:
        """True if its rows are records of the log, which no writer sent."""
        return self.writer == FOLLOWER or self.writer.startswith(REPLAY_OF_LOG)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return sum(file.rows for file in self.files)

    def to_bytes(self) -> bytes:
        """JSON."""
        return orjson.dumps({"files": [[f.file, f.rows] for f in self.files], "replays": self.replays})

    @staticmethod
    def parsed(name: str, data: bytes) -> RejectedEntry:
        """The reverse of ``to_bytes``."""
        own, found = _Name.of(name), orjson.loads(data)
        files = tuple(RejectedRows(str(file), int(rows)) for file, rows in found["files"])
        return RejectedEntry(own.time_ms, own.writer, own.epoch, files, tuple(map(str, found["replays"])))


@dataclass(frozen=True)
class RejectedEntries:
    """The entries and files of rejected rows of one table."""

    table: DynamicTable

    @property
    def io(self) -> FileIO:
        """The table's storage."""
        return self.table.io

    @property
    def _root(self) -> str:
        return f"{self.table.store.paths.branch_root}/lakelog/rejected"

    def path(self, file: str) -> str:
        """The path of a file of rows. Raises Corrupt for a name that is a path."""
        if "/" in file or not file.endswith(".parquet"):
            raise Corrupt(f"'{file[:200]}' is not the name of a file of rejected rows of table {self.table.name}")
        return f"{self._root}/rows/{file}"

    def publish(self, entries: Iterable[RejectedEntry | None]) -> None:
        """Creates entries; does nothing for None, and for those that exist.

        Called before the decision that is an entry itself is gone: the record of a sealed epoch, the state in the
        newest snapshot. Raises Unavailable, CommitUnknown, TableReplaced.
        """
        wanted = [entry for entry in entries if entry is not None]
        if wanted:
            self.table.check_identity()
        for entry in wanted:
            self.io.create(f"{self._root}/{entry.name}", entry.to_bytes())

    def visible(self, moment: WaitingEpochs | None = None) -> list[RejectedEntry]:
        """The entries that are neither replayed nor expired, the oldest first.

        ``moment`` is read before the entries are listed: an epoch that is sealed in between has its entry by then.
        """
        names, found = self._visible(moment)
        for name in names:
            if name not in found:
                with contextlib.suppress(NotFound):  # expired in the meantime
                    found[name] = self._read(name)
        return [found[name] for name in names if name in found]

    def count(self) -> int:
        """The number of rows in all of them. Reads the names, and the content of replays."""
        return sum(_Name.of(name).rows for name in self._visible(None)[0])

    def _visible(self, moment: WaitingEpochs | None) -> tuple[list[str], dict[str, RejectedEntry]]:
        """The names of the visible entries, and the entries that have been read."""
        if not self.io.list(self._root):  # the first file of rows is older than the first decision
            return [], {}
        moment = waiting_epochs(self.table) if moment is None else moment
        found = {entry.name: entry for entry in _undone(moment.waiting, moment.state)}
        names = sorted({*found, *self._names()})
        for name in names:
            if name not in found and _Name.of(name).kind == _REPLAY:
                with contextlib.suppress(NotFound):
                    found[name] = self._read(name)
        gone = {name for entry in found.values() for name in entry.replays} | _followed_again(names)
        oldest = self._oldest_ms()
        kept = [n for n in names if n not in gone and _Name.of(n).rows and _Name.of(n).time_ms > oldest]
        return kept, found

    def newest_replay(self, moment: WaitingEpochs, prefix: str) -> int:
        """The number of the newest decided replay whose writer id starts so, 0 for none."""
        writers = [*moment.newest(), *(_Name.of(name).writer for name in self._names())]
        found = [writer.removeprefix(prefix) for writer in writers if writer.startswith(prefix)]
        return max((int(number) for number in found if number.isdigit()), default=0)

    def expire(self) -> int:
        """Deletes expired entries with their files; returns the number of their rows. Raises Unavailable."""
        oldest, rows = self._oldest_ms(), 0
        for name in self._names():
            if _Name.of(name).time_ms > oldest:
                continue
            try:
                entry = self._read(name)
            except NotFound:
                continue
            self.io.delete(f"{self._root}/{name}")
            for file in entry.files:
                self.io.delete(self.path(file.file))
                rows += file.rows
        return rows

    def orphans(self, before_ms: int) -> list[FileStatus]:
        """The files of rows from before a time (ms since 1970) that no entry names: of attempts that do not count.

        Lists the files first, then what names them, so that a file of an epoch decided meanwhile is named.
        """
        old = [s for s in self.io.list(f"{self._root}/rows") if not s.is_dir and s.mtime_ms <= before_ms]
        if not old:
            return []
        records = self.table.decided.all()
        state = waiting_epochs(self.table).state
        entries = _undone(records, state)
        for name in self._names():
            with contextlib.suppress(NotFound):
                entries.append(self._read(name))
        named = {file.file for entry in entries for file in entry.files}
        return [status for status in old if status.name not in named]

    def _read(self, name: str) -> RejectedEntry:
        return read_as(self.io, f"{self._root}/{name}", partial(RejectedEntry.parsed, name))

    def _names(self) -> Sequence[str]:
        return [s.name for s in self.io.list(self._root) if not s.is_dir and _NAME.fullmatch(s.name)]

    def _oldest_ms(self) -> int:
        return now_ms() - int(self.table.options.need(REJECTED_RETENTION).total_seconds() * 1000)


def _undone(records: Iterable[EpochRecord], state: LogState) -> list[RejectedEntry]:
    """The entries that decisions are themselves."""
    found = [*map(RejectedEntry.of, records), RejectedEntry.of_follower(state.writers.get(FOLLOWER))]
    return [entry for entry in found if entry is not None]


def _followed_again(names: Sequence[str]) -> set[str]:
    """The entries (ascending) of the follower's epochs that it has decided again since, after a rollback."""
    out, lowest = set(), None
    for name in reversed(names):
        own = _Name.of(name)
        if own.writer != FOLLOWER:
            continue
        if lowest is not None and own.epoch >= lowest:
            out.add(name)
        else:
            lowest = own.epoch
    return out

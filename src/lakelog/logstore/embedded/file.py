"""An open SQLite file of an embedded log, with detection of a replaced file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from lakelog.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lakelog.io.machine import machine_identity
from lakelog.logstore.base import LogLocation
from lakelog.logstore.embedded.layout import check_layout

_BUSY_MS = 30_000
_OWNER = "table"
"""The key of the table's id in ``meta``, from its first append on."""


@contextlib.contextmanager
def translated_errors(location: LogLocation) -> Iterator[None]:
    """Translates SQLite's errors into lakelog's."""
    try:
        yield
    except sqlite3.OperationalError as failed:
        raise Unavailable(f"the embedded log {location.address} cannot be used now: {failed}") from failed
    except sqlite3.DatabaseError as failed:
        raise Corrupt(f"the embedded log {location.address} is damaged or not a log: {failed}") from failed
    except OSError as failed:
        why = failed.strerror or failed
        raise Unavailable(f"the embedded log {location.address} cannot be created: {why}") from failed


class EmbeddedFile:
    """An open log file; ``has_rows`` if it has rows of layout 1. Raises as ``LogSystem.check``.

    An open file stays usable after it is deleted, moved with its table or replaced. So each use checks the file at the
    path, which costs a microsecond.
    """

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self.database, self.has_rows, self._is_frozen = _opened(location)
        weakref.finalize(self, self.database.close).atexit = False  # sqlite3 alone leaves it to the garbage collector
        self._file = _file_at(location.address, self._is_frozen)
        self._ends: dict[int, int] = {}
        self._went_back = self._is_own = False

    @property
    def is_stale(self) -> bool:
        """True if the path has another file or none, or if the file lost committed records."""
        return self._went_back or _file_at(self._location.address, self._is_frozen) != self._file

    def check(self) -> None:
        """Raises NotFound if the file is stale."""
        if not self.is_stale:
            return
        _opened(self._location)[0].close()  # a new client reports the cause
        raise NotFound(
            f"the embedded log {self._location.address} was replaced by a copy of it while it was open, and later "
            "records may be missing. Try again: lakelog then opens the copy and compares it with the table"
        )

    def check_end(self, bucket: int, end: int, is_committed: bool = True) -> None:
        """Raises NotFound if a bucket ends before a known end; remembers the end if ``is_committed``."""
        if end < self._ends.get(bucket, 0):
            self._went_back = True
            raise NotFound(
                f"the embedded log {self._location.address} ends at offset {end} in bucket {bucket} and had "
                f"{self._ends[bucket]}: an older copy replaced it while it was open"
            )
        if is_committed:
            self._ends[bucket] = end

    def ends(self, column: str, buckets: Sequence[int] | None = None) -> dict[int, int]:
        """Bucket → ``next`` or ``trimmed``. Raises as ``check`` and ``check_end``."""
        self.check()
        with translated_errors(self._location):
            ends = dict(self.database.execute(f"select bucket, {column} from ends order by bucket").fetchall())
            self.check_owner()
        if column == "next":
            for bucket, end in ends.items():
                self.check_end(bucket, end)
        return ends if buckets is None else {bucket: ends[bucket] for bucket in buckets}

    def claim(self) -> None:
        """Makes the log that of the table, in the transaction of an append. Raises as ``check_owner``."""
        if self._location.owner and not self._is_own:
            self.database.execute("insert or ignore into meta values (?, ?)", (_OWNER, self._location.owner))
            self.check_owner(is_committed=False)

    def check_owner(self, is_committed: bool = True) -> None:
        """Raises InvalidRequest if the log has rows of another table, which was created with the same address.

        Called after a read. Remembers the answer if ``is_committed``.
        """
        if self._is_own or not self._location.owner:
            return
        row = self.database.execute("select value from meta where key = ?", (_OWNER,)).fetchone()
        if row is not None and row[0] != self._location.owner:
            raise InvalidRequest(
                f"the embedded log {self._location.address} has the rows of another table, which was created with the "
                "same 'log-store.address' and was written first: create this table again with another address"
            )
        self._is_own = is_committed and row is not None

    def close(self) -> None:
        self.database.close()


def _file_at(path: str, is_frozen: bool) -> tuple[int, ...] | None:
    """The identity of a file; with its state if SQLite takes it for one that nobody changes."""
    try:
        status = os.stat(path)
        return status.st_dev, status.st_ino, *((status.st_mtime_ns, _wal_bytes(path)) if is_frozen else ())
    except OSError:
        return None


def _wal_bytes(path: str) -> int:
    """The size of the records that are not in the file itself yet."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def connected(location: LogLocation, mode: str = "mode=rw") -> sqlite3.Connection:
    """A connection to an existing file; a missing one is never created."""
    return sqlite3.connect(
        f"file:{quote(os.path.abspath(location.address))}?{mode}",
        timeout=_BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(os.path.dirname(os.path.abspath(path))).f_flag & os.ST_RDONLY)


def _connected_for_use(location: LogLocation) -> tuple[sqlite3.Connection, bool]:
    """A connection, and whether SQLite takes the file for one that nobody changes: on a disk that is read-only.

    There SQLite cannot make the files that it needs beside the log. Raises Unavailable if the log has records in them.
    """
    if not _is_read_only(location.address):
        database = connected(location)
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        return database, False
    if _wal_bytes(location.address):
        raise Unavailable(
            f"the embedded log {location.address} is on a read-only disk, and its newest records are in "
            f"'{location.address}-wal', which SQLite cannot read there: close its writers where it is writable, or "
            "copy the table to another disk"
        )
    return connected(location, "mode=ro&immutable=1"), True


def _opened(location: LogLocation) -> tuple[sqlite3.Connection, bool, bool]:
    (theirs, their_boot), (ours, our_boot) = (m.rpartition("/")[::2] for m in (location.machine, machine_identity()))
    # one of the two changes with a restart, or with a container that has a name of its own
    if location.machine and theirs != ours and their_boot != our_boot:
        raise InvalidRequest(
            f"the embedded log {location.address} is on machine {theirs} and cannot be used on {ours}: an embedded "
            "log works on one machine only; use 'log-store.address' = '<kafka bootstrap servers>' for Spark on "
            "several machines"
        )
    if not os.path.exists(location.address):
        raise NotFound(
            f"the embedded log {location.address} is missing: it was deleted, or the table was created on another "
            "machine. Restore the file, or run on that machine"
        )
    with translated_errors(location):
        database, is_frozen = _connected_for_use(location)
        database.execute("pragma cache_size = -16384")
        try:
            has_rows = check_layout(database, location.address)
        except BaseException:
            database.close()
            raise
        row = database.execute("select value from meta where key = 'log_id'").fetchone()
    if location.log_id and (row is None or row[0] != location.log_id):
        database.close()
        raise NotFound(
            f"the embedded log {location.address} is not the one that was created with the table: another log "
            "replaced it. The rows are in the files; recreate the table to write to a log again"
        )
    return database, has_rows, is_frozen

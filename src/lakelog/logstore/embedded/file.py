"""The SQLite file of an embedded log as one client has it open, and whether it is still the one at its place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from urllib.parse import quote

from lakelog.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lakelog.io.machine import machine_identity
from lakelog.logstore.base import LogLocation

_BUSY_MS = 30_000


@contextlib.contextmanager
def translated_errors(location: LogLocation) -> Iterator[None]:
    """The one place in which SQLite's errors become lakelog's."""
    try:
        yield
    except sqlite3.OperationalError as failed:
        raise Unavailable(f"the embedded log {location.address} cannot be used now: {failed}") from failed
    except sqlite3.DatabaseError as failed:
        raise Corrupt(f"the embedded log {location.address} is damaged or not a log: {failed}") from failed
    except OSError as failed:
        why = failed.strerror or failed
        raise Unavailable(f"the embedded log {location.address} cannot be made: {why}") from failed


class EmbeddedFile:
    """An open log file. Raises as ``LogSystem.check``.

    Who has a file open goes on with it when it is deleted, moved with its table or replaced, and would not notice: so
    each use looks at what lies at its place, which costs a microsecond.
    """

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self.database = _opened(location)
        self._file = _file_at(location.address)
        self._ends: dict[int, int] = {}
        self._went_back = False

    @property
    def is_stale(self) -> bool:
        """Whether another file, or none, is at the place of this one, or what is in it is another log's now."""
        return self._went_back or _file_at(self._location.address) != self._file

    def check(self) -> None:
        """Raises NotFound when it is stale."""
        if not self.is_stale:
            return
        _opened(self._location).close()  # what is wrong with it a new client finds as well
        raise NotFound(
            f"the embedded log {self._location.address} was replaced by a copy of it while it was open: records that "
            f"came since the copy was made may be missing. Do it again: the copy is opened, and compared with the table"
        )

    def check_end(self, bucket: int, end: int, is_committed: bool = True) -> None:
        """Raises NotFound when a bucket ends before an end that it had; one that ``is_committed`` is remembered."""
        if end < self._ends.get(bucket, 0):
            self._went_back = True
            raise NotFound(
                f"the embedded log {self._location.address} ends at offset {end} in bucket {bucket} and had "
                f"{self._ends[bucket]}: an older copy was put in its place while it was open"
            )
        if is_committed:
            self._ends[bucket] = end

    def close(self) -> None:
        """Releases the file."""
        self.database.close()


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(location: LogLocation) -> sqlite3.Connection:
    (theirs, their_boot), (ours, our_boot) = (m.rpartition("/")[::2] for m in (location.machine, machine_identity()))
    # one of the two changes with a restart, or with a container that has a name of its own
    if location.machine and theirs != ours and their_boot != our_boot:
        raise InvalidRequest(
            f"the embedded log {location.address} lies on machine {theirs} and cannot be used on {ours}: an embedded "
            f"log works on one machine only; use 'log-store.address' = '<kafka bootstrap servers>' for Spark on "
            f"several machines"
        )
    if not os.path.exists(location.address):
        raise NotFound(
            f"the embedded log {location.address} is missing: it was deleted, or this is another machine than the "
            f"one on which the table was made"
        )
    with translated_errors(location):
        database = sqlite3.connect(
            f"file:{quote(os.path.abspath(location.address))}?mode=rw",  # never makes the file
            timeout=_BUSY_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        database.execute("pragma cache_size = -16384")
        if odd := database.execute("select name from sqlite_schema where type in ('view', 'trigger')").fetchone():
            database.close()  # a view may be an endless query, and a trigger writes what nobody sees
            raise Corrupt(f"the embedded log {location.address} has {odd[0]!r}, which no log has: it is not used")
        found = database.execute("select value from meta where key = 'log_id'").fetchone()
    if location.log_id and (found is None or found[0] != location.log_id):
        database.close()
        raise NotFound(
            f"the embedded log {location.address} is not the one that was made with the table: another one was put in "
            f"its place. The rows are in the files; make the table anew to log again"
        )
    return database

"""The time by the clock of the storage, by which old things are deleted.

A machine whose clock is wrong must not delete what is young. So an age is the difference of two times of the storage:
now, and when a file was written. A time that a writer has noted counts only if its file is not older than it says.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from lakelog.errors import LakelogError, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import FileIO

CLOCK_PREFIX: Final = "clock-"
_LEFT_MS: Final = 3_600_000
"""Age from which a file of a process that died is deleted."""
_TRUSTED_S: Final = 60.0
"""Seconds in which the time is counted on from that of the storage."""


class StorageClock:
    """The clock of the storage of a directory, which is asked only if a file seems old.

    Ages are those at the last ``begin``, which is called before a listing: a file may be written again after it.
    """

    def __init__(self, io: FileIO, root: str) -> None:
        self._io, self._root = io, root
        self._asked_s, self._lead_ms, self._begun_s = float("-inf"), 0.0, monotonic_s()

    def begin(self) -> None:
        """Notes the time of a listing that follows."""
        self._begun_s = monotonic_s()

    def is_older(self, written_ms: int, than_ms: float) -> bool:
        """True if a file of this time is older than a number of milliseconds.

        The clock of this machine only decides whether to ask. Raises Unavailable.
        """
        return not 0 <= now_ms() - written_ms < than_ms and self._now_ms() - written_ms >= than_ms

    def _now_ms(self) -> float:
        if monotonic_s() - self._asked_s > _TRUSTED_S:
            present_ms, self._asked_s = storage_now_ms(self._io, self._root), monotonic_s()
            self._lead_ms = present_ms - 1000 * self._asked_s
        return self._lead_ms + 1000 * self._begun_s


def storage_now_ms(io: FileIO, root: str) -> int:
    """Milliseconds since 1970 by the storage's clock: writes a file below the directory ``root`` and reads its time.

    Costs three requests, so the caller asks its own clock first whether anything is due. Raises Unavailable.
    """
    directory, name = f"{root}/lakelog", f"{CLOCK_PREFIX}{new_attempt()}"
    path = f"{directory}/{name}"
    try:
        io.write_hint(path, b"")
        clocks = {status.name: status for status in io.list(directory) if status.name.startswith(CLOCK_PREFIX)}
    finally:
        with suppress(LakelogError):
            io.delete(path)
            io.delete_empty_dir(directory)
    if name not in clocks:
        raise Unavailable(f"'{path}' was written and is not listed: the time of the storage is unknown. Try again")
    now_ms = clocks[name].mtime_ms
    for status in clocks.values():
        if status.mtime_ms < now_ms - _LEFT_MS:
            io.delete(status.path)
    return now_ms


def touched_ms(path: str) -> int:
    """Milliseconds since 1970 by the clock of the disk of an existing local file. Raises OSError."""
    os.utime(path)
    return os.stat(path).st_mtime_ns // 1_000_000

"""Days that pass for logs without a server, and for their disks. Leases and tables go by the real clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.io.storage.file_io import FileStatus
from lakelog.io.storage.local import LocalFileIO
from lakelog.logstore.embedded import appender as batches
from lakelog.logstore.embedded import reader as batches_reader
from lakelog.logstore.embedded import system as embedded
from lakelog.logstore.files import appender as segments
from lakelog.logstore.files import chain
from lakelog.logstore.files import reader as segments_reader

DAY = 86_400_000

_CLIENTS = (batches_reader, segments, chain, segments_reader)
_CREATE, _LIST = LocalFileIO.create, LocalFileIO.list


class LogDays:
    """The clock of a disk, and of the machines that use it; ``ahead_ms`` is how far the latter are ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_ms: int = 0) -> None:
        self._patch, created = monkeypatch, dict[str, int]()

        def create(io: LocalFileIO, path: str, data: bytes) -> bool:
            created.setdefault(path, self.now_ms)
            return _CREATE(io, path, data)

        def found(io: LocalFileIO, path: str) -> list[FileStatus]:
            return [replace(s, mtime_ms=created.get(s.path, s.mtime_ms)) for s in _LIST(io, path)]

        monkeypatch.setattr(LocalFileIO, "create", create)
        monkeypatch.setattr(LocalFileIO, "list", found)
        self.pass_to_ms(now_ms)

    def pass_to(self, day: int, ahead: int = 0) -> None:
        """Sets the day of the disk; the machine's is ``ahead`` days later."""
        self.pass_to_ms(day * DAY, ahead * DAY)

    def pass_to_ms(self, now_ms: int, ahead_ms: int = 0) -> None:
        """As ``pass_to``, in milliseconds since 1970."""
        self.now_ms = now_ms
        for module in _CLIENTS:
            self._patch.setattr(module, "now_ms", lambda: now_ms + ahead_ms)
        for disk in (batches, embedded):
            self._patch.setattr(disk, "touched_ms", lambda path: now_ms)
        self._patch.setattr(chain, "storage_now_ms", lambda io, root: now_ms)

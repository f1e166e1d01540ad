"""Checks of the warehouse: its storage, its clock and its catalog."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io import clock
from lakelog.io.clock import monotonic_s
from lakelog.io.quantities import format_bytes
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.service.doctor.check import Check, CheckContext, Finding, lake_of, listed

_LITTLE: Final = 1 << 30
_FIRST: Final = b"first"
_SLOW_COMMIT_S: Final = 2.0


class StorageCheck(Check):
    """Tries the steps of a commit in a new directory, which is deleted again, and checks the free space."""

    NAME = "storage"
    TITLE = "the storage of the warehouse"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        begun = monotonic_s()
        try:
            with around.scratch_directory() as (io, directory):
                wrong = _tried(io, f"{directory}/snapshot-1")
        except LakelogError as why:
            yield self.failed(
                f"'{around.warehouse}' cannot be used: {why}",
                "check that the path is a directory, its owner and mode, or the credentials of the object store",
            )
            return
        seconds = monotonic_s() - begun
        if wrong:
            yield self.failed(f"'{around.warehouse}': {wrong}", _LOCK)
        elif seconds > _SLOW_COMMIT_S:
            yield self.warned(
                f"'{around.warehouse}': commits work, but five small calls took {seconds:.1f} s",
                "set a longer 'commit.interval', or a warehouse that is nearer",
            )
        else:
            yield self.passed(f"'{around.warehouse}': read, write, create-if-absent, list, delete ({seconds:.2f} s)")
        yield from self._room(around.io, around.warehouse)
        yield from self._room(LocalFileIO(), tempfile.gettempdir())

    def _room(self, io: FileIO, path: str) -> Iterator[Finding]:
        space = io.space(path)
        if space is None:
            return
        text = f"'{path}' has {format_bytes(space.free)} of free space"
        if space.is_full:
            yield self.failed(text, "free disk space: writes will fail")
        elif space.is_low or space.free < _LITTLE:
            yield self.warned(text, "free disk space: compactions write new files before they delete old ones")
        else:
            yield self.passed(text)


_LOCK: Final = (
    "two commits could overwrite each other: configure the same lock ('lock.type') for all writers, or use a store "
    "with conditional put"
)


def _tried(io: FileIO, path: str) -> str:
    """The problem of create-if-absent; empty without one."""
    if not io.create(path, _FIRST):
        return "a missing file cannot be created"
    if io.create(path, b"second"):
        return "a file was created twice: the storage has no create-if-absent"
    if io.read(path) != _FIRST:
        return "the second creation of a file replaced its bytes"
    if [status.name for status in io.list(path.rpartition("/")[0])] != ["snapshot-1"]:
        return "a new file is not listed"
    io.delete(path)
    return "a deleted file still exists" if io.exists(path) else ""


_WARN_MS: Final = 5_000
_FAIL_MS: Final = 60_000
"""Maximum difference of clocks: a lease lasts a minute, and beyond that two compactors do the same work."""
_TO_DO: Final = "let all machines set their clocks by NTP (timedatectl set-ntp true)"


class ClockCheck(Check):
    """Compares the times of a new file and of the newest snapshots with this clock."""

    NAME = "clock"
    TITLE = "the clocks"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        with around.scratch_directory() as (io, directory):
            before = clock.now_ms()
            io.write(f"{directory}/now", b"now")
            after = clock.now_ms()
            stored = io.list(directory)[0].mtime_ms
        # the difference includes the duration of the call; object stores report whole seconds
        skew = stored - after if stored > after else min(0, stored + 1000 - before)
        yield self._skew_finding(skew, "the storage's clock")
        newest = 0
        lake, names = listed(around)
        for name in names:
            try:
                snapshot = lake.table(name).latest_snapshot()
            except LakelogError:
                continue  # the check of the tables reports it
            newest = max(newest, 0 if snapshot is None else snapshot.time_millis)
        if newest > clock.now_ms() + _WARN_MS:
            yield self._skew_finding(newest - clock.now_ms(), "the clock of the newest snapshot's writer")

    def _skew_finding(self, skew_ms: int, whose: str) -> Finding:
        if abs(skew_ms) <= _WARN_MS:
            return self.passed(f"this machine and {whose} agree")
        text = f"{whose} is {abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} this machine's"
        if abs(skew_ms) <= _FAIL_MS:
            return self.warned(text, _TO_DO)
        return self.failed(f"{text}: leases and retention depend on these clocks", _TO_DO)


_SLOW_LISTING_S: Final = 5.0


class CatalogCheck(Check):
    """The names of databases and tables."""

    NAME = "catalog"
    TITLE = "the catalog"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        begun = monotonic_s()
        try:
            lake = lake_of(around)
            databases, tables = lake.list_databases(), lake.list_tables()
        except LakelogError as why:
            yield self.failed("the catalog does not answer", str(why))
            return
        seconds = monotonic_s() - begun
        text = f"{len(tables)} tables in {len(databases)} databases, listed in {seconds:.2f} s"
        if seconds > _SLOW_LISTING_S:
            yield self.warned(text, "'catalog.type' = 'sql' keeps the names in a database, which lists them faster")
        else:
            yield self.passed(text)

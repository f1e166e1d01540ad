"""Can the warehouse be read and written, and does create-if-absent work there?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.io.quantities import format_bytes
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.service.doctor.check import Check, CheckContext, Finding

_LITTLE: Final = 1 << 30
_FIRST: Final = b"first"
_SLOW_S: Final = 2.0


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
        elif seconds > _SLOW_S:
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

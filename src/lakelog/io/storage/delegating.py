"""Storages that delegate all other calls to another one."""

from __future__ import annotations

import contextlib
import logging
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.clock import monotonic_s
from lakelog.io.storage.file_io import DiskSpace, FileIO, FileStatus
from lakelog.io.storage.snapshot_owner import SnapshotOwner
from lakelog.options.boundary import STATEMENT

LOG: Final = logging.getLogger("lakelog.storage")
"""The log of requests."""
_SLOTS: Final = 64
WAIT_S: Final = 60.0
"""Timeout of a lock in seconds; its holder sends two requests."""


@dataclass(frozen=True)
class DelegatingFileIO(FileIO):
    """Delegates to another storage, except for the methods that a subclass overrides."""

    inner: FileIO

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        return self.inner.snapshot_owner

    @property
    def external_roots(self) -> tuple[str, ...]:
        return self.inner.external_roots

    def real(self, path: str, below: str = "") -> str:
        return self.inner.real(path, below)

    def absolute(self, path: str) -> str:
        return self.inner.absolute(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.inner.open_input(path)

    def write(self, path: str, data: bytes) -> None:
        self.inner.write(path, data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        self.inner.write_all(files)

    def write_hint(self, path: str, data: bytes) -> None:
        self.inner.write_hint(path, data)

    def create(self, path: str, data: bytes) -> bool:
        return self.inner.create(path, data)

    def open_output(self, path: str) -> pa.NativeFile:
        return self.inner.open_output(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        return self.inner.list(path)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def delete_dir(self, path: str) -> None:
        self.inner.delete_dir(path)

    def within(self, root: str) -> Self:
        return replace(self, inner=self.inner.within(root))

    @contextlib.contextmanager
    def hold(self, root: str) -> Iterator[Self]:
        with self.inner.hold(root) as held:
            yield replace(self, inner=held)

    def space(self, path: str) -> DiskSpace | None:
        return self.inner.space(path)

    def delete_empty_dir(self, path: str) -> None:
        self.inner.delete_empty_dir(path)

    def makedirs(self, path: str) -> None:
        self.inner.makedirs(path)

    def rename_dir(self, path: str, new_path: str) -> None:
        self.inner.rename_dir(path, new_path)


def _logged(name: str) -> Any:
    """A method of ``FileIO`` that writes a line to the log at its end."""

    def method(self: LoggedFileIO, *arguments: Any) -> Any:
        begun = monotonic_s()
        try:
            return getattr(self.inner, name)(*arguments)
        finally:
            path = arguments[0] if isinstance(arguments[0], str) else f"{len(arguments[0])} files"
            LOG.debug("statement %s: %s %s in %.1f ms", STATEMENT.get(), name, path, (monotonic_s() - begun) * 1000)

    return method


@dataclass(frozen=True)
class LoggedFileIO(DelegatingFileIO):
    """Another storage, with a line in the log for each request. ``file_io_for`` makes it at DEBUG only."""

    read = _logged("read")
    open_input = _logged("open_input")
    write = _logged("write")
    write_all = _logged("write_all")
    write_hint = _logged("write_hint")
    create = _logged("create")
    open_output = _logged("open_output")
    exists = _logged("exists")
    size = _logged("size")
    list = _logged("list")
    delete = _logged("delete")
    delete_dir = _logged("delete_dir")
    delete_empty_dir = _logged("delete_empty_dir")
    makedirs = _logged("makedirs")
    rename_dir = _logged("rename_dir")


@dataclass(frozen=True)
class ExternalFileIO(DelegatingFileIO):
    """Another storage, with the allowed directories of external files."""

    roots: tuple[str, ...]

    @property
    def external_roots(self) -> tuple[str, ...]:
        return self.roots


@dataclass(frozen=True)
class ServerCommittedFileIO(DelegatingFileIO):
    """Another storage, with the owner that commits its snapshots."""

    owner: SnapshotOwner

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        return self.owner


@dataclass(frozen=True)
class LockedFileIO(DelegatingFileIO):
    """Another storage whose ``create`` is atomic among all users of the same lock."""

    lock: CreateLock

    def create(self, path: str, data: bytes) -> bool:
        """As ``FileIO.create``. Raises Unavailable if the lock times out, CommitUnknown if the outcome is unknown."""
        with self.lock.held(path):
            if self.inner.exists(path):
                return False
            try:
                self.inner.write(path, data)
            except Unavailable as why:
                raise CommitUnknown(f"'{path}' may or may not have been written: {why}") from why
            return True


class CreateLock(ABC):
    """A lock by path. A frozen, picklable value that executors share.

    It is released if its holder dies, without a lease that could expire for a slow holder.
    """

    is_local: ClassVar[bool]
    """Whether it writes files of this machine, which the statements of a user must not name."""

    @abstractmethod
    def held(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Holds the lock of a path during the block.

        Raises Unavailable when it cannot be had in a minute, and CommitUnknown at the end when it may have been lost
        in between.
        """


def slot_of(path: str) -> int:
    """One of 64 numbers for the directory of a path: tables seldom wait for each other, and locks need no cleaning."""
    return zlib.crc32(path.rpartition("/")[0].encode()) % _SLOTS

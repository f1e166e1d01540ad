"""Reads, creates if absent, lists and deletes bytes by path; one implementation per kind of storage."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.errors import Corrupt, TableReplaced, UnsupportedFeature
from lakelog.io.storage.snapshot_owner import SnapshotOwner

_MOST_READ: Final = 256 << 20
"""Bytes of a file that is read whole: metadata. A sparse file of any size costs who made it nothing."""


def check_whole(path: str, size: int) -> None:
    """Raises Corrupt for a file that is too large to be read whole; called by ``read`` before it takes memory."""
    if size > _MOST_READ:
        raise Corrupt(f"'{path}' has {size:,} bytes, and a file that is read whole has at most {_MOST_READ:,}")


_FULL_BYTES: Final = 64 << 20
_LOW_SHARE: Final = 0.05


@dataclass(frozen=True)
class FileStatus:
    """One file or directory in a listing; ``path`` is complete.

    ``is_link``: it is a symbolic link, and the other attributes are those of its target.
    """

    path: str
    size: int
    mtime_ms: int
    is_dir: bool
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True)
class DiskSpace:
    """The free space of a disk, and its size without what only root may use, in bytes."""

    free: int
    size: int

    @property
    def is_full(self) -> bool:
        """True if writes fail now or soon."""
        return self.free < _FULL_BYTES

    @property
    def is_low(self) -> bool:
        """True if little space is left."""
        return self.is_full or self.free < self.size * _LOW_SHARE


class FileIO(ABC):
    """Storage of a warehouse. Picklable, because it travels to Spark executors; paths use ``/``.

    A missing file is NotFound; storage that cannot be reached is Unavailable (the same call again later). What is
    written is visible to every later read and listing.
    """

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        """The owner that makes snapshots visible; None if creating their files does."""
        return None

    @property
    def external_roots(self) -> tuple[str, ...]:
        """Directories in which tables may have files outside of their own directory."""
        return ()

    def real(self, path: str, below: str = "") -> str:
        """The absolute path without symbolic links, if the storage supports them.

        ``below`` is a directory above the path whose real path is known: only it and the names after it are looked at.
        """
        return self.absolute(path)

    def absolute(self, path: str) -> str:
        """The path in this storage's canonical form: absolute, without a trailing slash."""
        return path.rstrip("/")

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises Corrupt for one that is too large (``check_whole``)."""

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """A file with random access, which the caller closes."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Writes or atomically replaces a file; a reader sees the old bytes or the new ones. Creates directories."""

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Writes several files as ``write`` does, and returns when all of them are durable.

        After an error, any of them may exist; nothing is written later.
        """
        for path, data in files.items():
            self.write(path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        """As ``write``, for a file that readers check and can do without: a power loss may leave any content."""
        self.write(path, data)

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Creates a file atomically if it does not exist: all bytes or no file. Creates directories.

        Returns False if the file exists, regardless of its creator. Raises CommitUnknown if the outcome is unknown; the
        caller reads the file to determine it.
        """

    @abstractmethod
    def open_output(self, path: str) -> pa.NativeFile:
        """A new file for sequential writes, durable after ``close``. Creates directories.

        Names of such files are unique, so the behaviour for an existing file is undefined.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Returns whether a file or directory exists."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file."""

    @abstractmethod
    def list(self, path: str) -> list[FileStatus]:
        """The files and directories directly inside a directory, by name; empty if it does not exist."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes a file; does nothing if it does not exist."""

    @abstractmethod
    def delete_dir(self, path: str) -> None:
        """Deletes a directory recursively; does nothing if it does not exist."""

    @abstractmethod
    def makedirs(self, path: str) -> None:
        """Creates a directory and its parents; does nothing if it exists."""

    def rename_dir(self, path: str, new_path: str) -> None:
        """Renames a directory atomically.

        Creates the parents of the new path. Raises NotFound, AlreadyExists if the new path exists, UnsupportedFeature
        if the storage has no atomic rename (object stores copy file by file).
        """
        raise UnsupportedFeature(
            f"'{path}' cannot be moved to '{new_path}': this storage cannot rename a directory in one step. Create a "
            "new table and copy the rows"
        )

    def within(self, root: str) -> FileIO:
        """The same storage for use inside a directory ``root`` that others may move or delete.

        It never creates ``root``. A write creates only directories below it, and raises TableReplaced if it does not
        exist. A storage without real directories, which cannot be moved, returns itself.
        """
        return self

    @contextlib.contextmanager
    def hold(self, root: str) -> Iterator[FileIO]:
        """Context with the same storage, in which reads and deletions below ``root`` reach one directory.

        It is the directory that has this name at the start, also after others have moved it. Raises NotFound. A storage
        without such a way to a directory returns itself: a file of that name is deleted, whichever directory it is in.
        """
        yield self

    def space(self, path: str) -> DiskSpace | None:
        """The space of the disk of an existing or future path; None if the storage reports no limit."""
        return None

    def delete_empty_dir(self, path: str) -> None:
        """Deletes a directory if it is empty; storages without real directories do nothing."""
        return


def moved(root: str) -> TableReplaced:
    """The error for a table whose directory was deleted."""
    return TableReplaced(
        f"there is no table in '{root}' any more: it was dropped or renamed after it was opened. Nothing was "
        f"written; open it again by the name that it has now"
    )

"""Reads, creates if absent, lists and deletes bytes by path; one implementation per kind of storage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from lakelog.errors import TableReplaced, UnsupportedFeature
from lakelog.io.storage.snapshot_owner import SnapshotOwner


@dataclass(frozen=True)
class FileStatus:
    """What a listing says of one file or directory; ``path`` is complete.

    ``is_link``: it is a symbolic link, and the rest is said of what it leads to.
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


class FileIO(ABC):
    """Storage of a warehouse. Picklable, because it travels to Spark executors; paths use ``/``.

    A missing file is NotFound; storage that cannot be reached is Unavailable (the same call again later). What is
    written is visible to every later read and listing.
    """

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        """Who makes snapshots visible; None where creating their files does."""
        return None

    @property
    def external_roots(self) -> tuple[str, ...]:
        """Directories in which tables may have files outside of their own directory."""
        return ()

    def real(self, path: str) -> str:
        """The absolute path without symbolic links, where the storage has any."""
        return self.absolute(path)

    def absolute(self, path: str) -> str:
        """The same place in the form that this storage uses everywhere: no trailing slash, not relative."""
        return path.rstrip("/")

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All bytes of a file."""

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """A file to read at random places; the caller closes it."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Puts a file, replacing one that exists; a reader sees the old bytes or the new ones. Makes directories."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Puts a file if there is none, atomically: all bytes or no file. Makes directories.

        Returns False when the file exists, whoever made it. Raises CommitUnknown when the outcome cannot be told;
        the caller reads the file to find out.
        """

    @abstractmethod
    def open_output(self, path: str) -> pa.NativeFile:
        """A new file to write from start to end; it is durable after ``close``. Makes directories.

        Names of such files are never used twice, so nothing is said about one that exists.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file."""

    @abstractmethod
    def list(self, path: str) -> list[FileStatus]:
        """The files and directories directly inside a directory, by name; empty when it does not exist."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Removes a file; one that is missing is fine."""

    @abstractmethod
    def delete_dir(self, path: str) -> None:
        """Removes a directory with all it holds; one that is missing is fine."""

    @abstractmethod
    def makedirs(self, path: str) -> None:
        """Makes a directory and those above it; one that exists is fine."""

    def rename_dir(self, path: str, new_path: str) -> None:
        """Gives a directory another place, at once: at every moment all of it is at the old or at the new one.

        Makes the directories above the new place. Raises NotFound, AlreadyExists when something is at the new place,
        UnsupportedFeature where the storage has no such step (object stores copy file by file).
        """
        raise UnsupportedFeature(
            f"'{path}' cannot be moved to '{new_path}': this storage cannot rename a directory in one step; "
            f"make a new table and copy the rows"
        )

    def within(self, root: str) -> FileIO:
        """The same storage for whoever works inside a directory that others may move or remove: it never makes it.

        There a write makes the directories below ``root`` only, and raises TableReplaced when that is gone. A storage
        without real directories, where none can be moved either, is itself.
        """
        return self

    def free_bytes(self, path: str) -> int | None:
        """The free space where a path is, or where it would be; None where the storage has no limit that it tells."""
        return None

    def delete_empty_dir(self, path: str) -> None:
        """Removes a directory if it is empty at this moment; stores without real directories have nothing to do."""
        return


def moved(root: str) -> TableReplaced:
    """The error for a table whose directory is gone."""
    return TableReplaced(
        f"there is no table in '{root}' any more: it was dropped, or renamed, since it was opened. Nothing was "
        f"written; open it again by the name that it has now"
    )

"""Create-if-absent for a store that cannot: look and write while holding a lock."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.create_lock import CreateLock
from lakelog.io.file_io import FileIO, FileStatus


@dataclass(frozen=True)
class LockedFileIO(FileIO):
    """Another storage whose ``create`` is atomic among all who use the same lock; everything else passes through."""

    inner: FileIO
    lock: CreateLock

    def create(self, path: str, data: bytes) -> bool:
        """As every storage's. Raises Unavailable when the lock cannot be had, CommitUnknown when the write was lost."""
        with self.lock.held(path):
            if self.inner.exists(path):
                return False
            try:
                self.inner.write(path, data)
            except Unavailable as why:
                raise CommitUnknown(f"'{path}' may or may not have been written: {why}") from why
            return True

    def absolute(self, path: str) -> str:
        return self.inner.absolute(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.inner.open_input(path)

    def write(self, path: str, data: bytes) -> None:
        self.inner.write(path, data)

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

    def delete_empty_dir(self, path: str) -> None:
        self.inner.delete_empty_dir(path)

    def makedirs(self, path: str) -> None:
        self.inner.makedirs(path)

    def rename_dir(self, path: str, new_path: str) -> None:
        self.inner.rename_dir(path, new_path)

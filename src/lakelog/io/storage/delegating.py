"""Storage that is another one but for a part: everything passes through to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.io.storage.snapshot_owner import SnapshotOwner


@dataclass(frozen=True)
class DelegatingFileIO(FileIO):
    """Another storage; what a subclass overrides is its own."""

    inner: FileIO

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        return self.inner.snapshot_owner

    @property
    def external_roots(self) -> tuple[str, ...]:
        return self.inner.external_roots

    def real(self, path: str) -> str:
        return self.inner.real(path)

    def absolute(self, path: str) -> str:
        return self.inner.absolute(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.inner.open_input(path)

    def write(self, path: str, data: bytes) -> None:
        self.inner.write(path, data)

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

    def free_bytes(self, path: str) -> int | None:
        return self.inner.free_bytes(path)

    def delete_empty_dir(self, path: str) -> None:
        self.inner.delete_empty_dir(path)

    def makedirs(self, path: str) -> None:
        self.inner.makedirs(path)

    def rename_dir(self, path: str, new_path: str) -> None:
        self.inner.rename_dir(path, new_path)

"""The storage of one table, confined to the table's directory regardless of its metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.io.storage.delegating import DelegatingFileIO
from lakelog.io.storage.file_io import FileIO, FileStatus

_S3_SCHEMES: Final = re.compile(r"s3[an](?=://)")
_UP: Final = re.compile(r"(?:^|/)\.\.?(?=/|$)")


def confined(io: FileIO, root: str) -> FileIO:
    """The storage of a table in the directory ``root``; called when a table is opened."""
    inner = io.inner if isinstance(io, ConfinedFileIO) else io
    return ConfinedFileIO(inner, root)


@dataclass(frozen=True)
class ConfinedFileIO(DelegatingFileIO):
    """Another storage, restricted to ``root``. Every call raises Corrupt for a path outside of it.

    A symbolic link counts as its target, but ``delete`` removes the link. Files below the external roots of the storage
    are readable, too. They may belong to several tables, so ``delete`` ignores them.
    """

    root: str

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def absolute(self, path: str) -> str:
        self._check_readable(path)
        return self.inner.absolute(path)

    def read(self, path: str) -> bytes:
        self._check_readable(path)
        return self.inner.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self._check_readable(path)
        return self.inner.open_input(path)

    def exists(self, path: str) -> bool:
        self._check_readable(path)
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        self._check_readable(path)
        return self.inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        self._check_inside(path)
        return [
            s for s in self.inner.list(path) if not s.is_link or _is_below(self.inner.real(s.path), self._real_root)
        ]

    def write(self, path: str, data: bytes) -> None:
        self._check_inside(path)
        self.inner.write(path, data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        for path in files:
            self._check_inside(path)
        self.inner.write_all(files)

    def write_hint(self, path: str, data: bytes) -> None:
        self._check_inside(path)
        self.inner.write_hint(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self._check_inside(path)
        return self.inner.create(path, data)

    def open_output(self, path: str) -> pa.NativeFile:
        self._check_inside(path)
        return self.inner.open_output(path)

    def makedirs(self, path: str) -> None:
        self._check_inside(path)
        self.inner.makedirs(path)

    def delete(self, path: str) -> None:
        if self._is_own_entry(path):
            self.inner.delete(path)

    def delete_dir(self, path: str) -> None:
        if self._is_own_entry(path):
            self.inner.delete_dir(path)

    def delete_empty_dir(self, path: str) -> None:
        if self._is_own_entry(path):
            self.inner.delete_empty_dir(path)

    def rename_dir(self, path: str, new_path: str) -> None:
        for each in (path, new_path):
            self._check_inside(each)
        self.inner.rename_dir(path, new_path)

    @cached_property
    def _real_root(self) -> str:
        """The real path of the table's directory."""
        return self.inner.real(self.root)

    @cached_property
    def _external(self) -> tuple[str, ...]:
        return tuple(self.inner.real(root) for root in self.inner.external_roots)

    def _check_inside(self, path: str) -> None:
        if not self._is_inside(path):
            raise self._refused(path)

    def _check_readable(self, path: str) -> None:
        if not self._is_inside(path) and not self._is_external(path):
            raise self._refused(path)

    def _is_inside(self, path: str) -> bool:
        for root in (self.root, self._real_root):  # the root itself may be a relative path
            if path == root or path.startswith(f"{root}/"):
                names = path[len(root) :]
                return not _UP.search(names) and _is_below(
                    self.inner.real(self._real_root + names, self._real_root), self._real_root
                )
        return not _UP.search(path) and _is_below(self.inner.real(path), self._real_root)

    def _is_external(self, path: str) -> bool:
        return not _UP.search(path) and any(_is_below(self.inner.real(path), root) for root in self._external)

    def _is_own_entry(self, path: str) -> bool:
        """Returns whether an entry, possibly a link, is in the table's directory; False for external roots."""
        directory, _, name = path.rstrip("/").rpartition("/")
        if path.rstrip("/") == self.root or (name not in ("", ".", "..") and self._is_inside(directory)):
            return True
        if self._is_external(path):
            return False
        raise self._refused(path)

    def _refused(self, path: str) -> Corrupt:
        return Corrupt(
            f"'{path}' is not below '{self.root}', the directory of its table: it is neither read nor changed. "
            f"Correct the table's metadata or remove the symbolic link, or allow the directory to be read with the "
            f"catalog option 'catalog.external-paths'"
        )


def _is_below(path: str, root: str) -> bool:
    if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
        return True
    path, root = (_S3_SCHEMES.sub("s3", each) for each in (path, root))
    return path == root or path.startswith(root.rstrip("/") + "/")

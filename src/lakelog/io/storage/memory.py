"""Files in the memory of one process, the counterpart of local files, for tests and temporary tables."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.errors import AlreadyExists, NotFound
from lakelog.io.clock import now_ms
from lakelog.io.storage.file_io import FileIO, FileStatus


@dataclass
class _Store:
    """The files (bytes, modification time) and directories of one store."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)


_STORES: dict[str, _Store] = {}
"""Name → store, so that a pickled MemoryFileIO finds its files again in the same process."""


class MemoryFileIO(FileIO):
    """Files of a named store; two values with the same name share the files."""

    def __init__(self, name: str = "default") -> None:
        self._name = name

    @property
    def _store(self) -> _Store:
        return _STORES.setdefault(self._name, _Store())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryFileIO) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def read(self, path: str) -> bytes:
        file = self._store.files.get(_key(path))
        if file is None:
            raise NotFound(f"file '{path}' does not exist")
        return file[0]

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def write(self, path: str, data: bytes) -> None:
        with self._store.lock:
            self._put(_key(path), bytes(data))

    def create(self, path: str, data: bytes) -> bool:
        with self._store.lock:
            if _key(path) in self._store.files:
                return False
            self._put(_key(path), bytes(data))
        return True

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Output(self, path), mode="w")

    def exists(self, path: str) -> bool:
        return _key(path) in self._store.files or _key(path) in self._store.directories

    def size(self, path: str) -> int:
        return len(self.read(path))

    def list(self, path: str) -> list[FileStatus]:
        inside = _key(path) + "/"
        with self._store.lock:
            statuses = [
                FileStatus(name, len(data), changed, False)
                for name, (data, changed) in self._store.files.items()
                if _is_child(name, inside)
            ]
            statuses += [
                FileStatus(name, 0, created, True)
                for name, created in self._store.directories.items()
                if _is_child(name, inside)
            ]
        return sorted(statuses, key=lambda s: s.path)

    def delete(self, path: str) -> None:
        self._store.files.pop(_key(path), None)

    def delete_dir(self, path: str) -> None:
        top = _key(path)
        with self._store.lock:
            for names in (self._store.files, self._store.directories):
                for name in [n for n in names if n == top or n.startswith(top + "/")]:
                    del names[name]

    def delete_empty_dir(self, path: str) -> None:
        inside = _key(path) + "/"
        with self._store.lock:
            names = (*self._store.files, *self._store.directories)
            if not any(name.startswith(inside) for name in names):
                self._store.directories.pop(_key(path), None)

    def makedirs(self, path: str) -> None:
        with self._store.lock:
            self._make(_key(path))

    def rename_dir(self, path: str, new_path: str) -> None:
        source, target = _key(path), _key(new_path)
        store = self._store
        with store.lock:
            if source not in store.directories:
                raise NotFound(f"file '{path}' does not exist")
            if target in store.files or any(name.startswith(target + "/") for name in store.files):
                raise AlreadyExists(f"'{new_path}' exists: choose another name")
            self._make(target)
            for name in [n for n in store.files if n.startswith(source + "/")]:
                store.files[target + name[len(source) :]] = store.files.pop(name)
            for name in [n for n in store.directories if n == source or n.startswith(source + "/")]:
                store.directories[target + name[len(source) :]] = store.directories.pop(name)

    def _put(self, key: str, data: bytes) -> None:
        self._make(key.rpartition("/")[0])
        self._store.files[key] = (data, now_ms())

    def _make(self, key: str) -> None:
        for directory in _parents(key):
            self._store.directories.setdefault(directory, now_ms())


class _Output(io.BytesIO):
    """An output into a store; the file exists after ``close``."""

    def __init__(self, target: MemoryFileIO, path: str) -> None:
        super().__init__()
        self._target, self._path = target, path

    def close(self) -> None:
        if not self.closed:
            self._target.write(self._path, self.getvalue())
        super().close()

    def __del__(self) -> None:
        """Discards an output without ``close``, because its writer has failed."""


def _key(path: str) -> str:
    return path.removeprefix("memory:").rstrip("/")


def _parents(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition("/")[0]


def _is_child(name: str, inside: str) -> bool:
    return name.startswith(inside) and "/" not in name[len(inside) :]

"""Storage in memory: every call yields before its effect, and its answer may be lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from simulated_process import Scheduler

from lakelog.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from lakelog.io.storage.file_io import FileIO, FileStatus, moved


@dataclass(eq=False)
class _Held:
    """A directory that a process holds: the name at the start, and the present one."""

    root: str
    place: str


@dataclass(eq=False)
class _File:
    data: bytes
    mtime_ms: int


class SimulatedIO(FileIO):
    """Files by path; a directory is there while something is in it.

    ``beside`` is what else a directory holds: the simulated file store of a table. It moves and goes with it.
    ``on_create`` is called with the path and the bytes of a file that was created.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._files: dict[str, _File] = {}
        self._inside: dict[str, set[str]] = {}
        self._root = ""
        self._held: list[_Held] = []
        self._handle: _Held | None = None
        self.beside: dict[str, Any] = {}
        self.on_create: Callable[[str, bytes], None] = lambda path, data: None

    def within(self, root: str) -> SimulatedIO:
        found = copy(self)
        found._root = root
        return found

    @contextlib.contextmanager
    def hold(self, root: str) -> Iterator[SimulatedIO]:
        if root not in self._inside:
            raise NotFound(f"directory '{root}' does not exist")
        held, found = _Held(root, root), copy(self)
        found._handle = held
        self._held.append(held)
        try:
            yield found
        finally:
            self._held.remove(held)

    def _place(self, path: str) -> str:
        """The present path of a file, which may be in a held directory."""
        held = self._handle
        is_inside = held is not None and path.startswith(f"{held.root}/")
        return held.place + path.removeprefix(held.root) if held is not None and is_inside else path

    def real(self, path: str, below: str = "") -> str:
        return path

    def absolute(self, path: str) -> str:
        return path

    def read(self, path: str) -> bytes:
        self._scheduler.pause(f"read {_short(path)}")
        return self.peek(path)

    def peek(self, path: str) -> bytes:
        """Reads without a yield. Raises NotFound."""
        found = self._files.get(self._place(path))
        if found is None:
            raise NotFound(f"file '{path}' does not exist")
        return found.data

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def write(self, path: str, data: bytes) -> None:
        self._scheduler.pause(f"write {_short(path)}")
        self._put(path, data)
        if self._scheduler.loses(f"write {_short(path)}"):
            raise Unavailable(f"'{path}': the answer was lost")

    def create(self, path: str, data: bytes) -> bool:
        scheduler = self._scheduler
        scheduler.pause(f"create {_short(path)}")
        is_new = path not in self._files
        if scheduler.loses(f"create {_short(path)}"):
            if is_new and scheduler.dice.random() < 0.6:
                self._put(path, data)
                self.on_create(path, data)
            raise CommitUnknown(f"'{path}': the answer was lost")
        if is_new:
            self._put(path, data)
            self.on_create(path, data)
        scheduler.landmark(f"created {_short(path)}" if is_new else f"lost the race for {_short(path)}")
        return is_new

    def open_output(self, path: str) -> pa.NativeFile:
        raise AssertionError(f"nothing writes files of rows here: {path}")

    def exists(self, path: str) -> bool:
        self._scheduler.pause(f"exists {_short(path)}")
        return path in self._files or path in self._inside

    def size(self, path: str) -> int:
        return len(self.read(path))

    def list(self, path: str) -> list[FileStatus]:
        self._scheduler.pause(f"list {_short(path)}")
        found, root = [], path.rstrip("/")
        for name in sorted(self._inside.get(root, ())):
            file = self._files.get(f"{root}/{name}")
            size, time = (0, 0) if file is None else (len(file.data), file.mtime_ms)
            found.append(FileStatus(f"{root}/{name}", size, time, file is None))
        return found

    def delete(self, path: str) -> None:
        self._scheduler.pause(f"delete {_short(path)}")
        self._remove(self._place(path))
        if self._scheduler.loses(f"delete {_short(path)}"):
            raise Unavailable(f"'{path}': the answer was lost")

    def delete_dir(self, path: str) -> None:
        if path.endswith("/snapshot"):
            self._scheduler.pause(f"delete {_short(path)}")
            self.beside.pop(path.removesuffix("/snapshot"), None)
        for name in sorted(name for name in self._files if name.startswith(f"{path}/")):
            self.delete(name)

    def makedirs(self, path: str) -> None:
        return

    def rename_dir(self, path: str, new_path: str) -> None:
        self._scheduler.pause(f"rename {path} to {new_path}")
        if path not in self._inside:
            raise NotFound(f"directory '{path}' does not exist")
        if new_path in self._inside:
            raise AlreadyExists(f"directory '{new_path}' exists")
        for name in [name for name in self._files if name.startswith(f"{path}/")]:
            file = self._files[name]
            self._remove(name)
            self._insert(new_path + name.removeprefix(path), file)
        for held in self._held:
            held.place = new_path if held.place == path else held.place
        if path in self.beside:
            self.beside[new_path] = self.beside.pop(path)
        self._scheduler.landmark(f"renamed {path} to {new_path}")

    def _put(self, path: str, data: bytes) -> None:
        if self._root and self._root not in self._inside:
            raise moved(self._root)
        self._insert(path, _File(data, int(self._scheduler.now)))  # by the clock of the storage

    def _insert(self, path: str, file: _File) -> None:
        is_new = path not in self._files
        self._files[path] = file
        while is_new and path:
            path, _, name = path.rpartition("/")
            names = self._inside.setdefault(path, set())
            is_new = not names
            names.add(name)

    def _remove(self, path: str) -> None:
        is_gone = self._files.pop(path, None) is not None
        while is_gone and path:
            path, _, name = path.rpartition("/")
            names = self._inside[path]
            names.discard(name)
            is_gone = not names
            if is_gone:
                del self._inside[path]


def _short(path: str) -> str:
    return path.removeprefix("memory/db.db/")

"""Storage in memory: every call gives way before its effect, and its answer may be lost."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from simulated_process import Scheduler

from lakelog.errors import CommitUnknown, NotFound, Unavailable
from lakelog.io.file_io import FileIO, FileStatus


@dataclass(eq=False)
class _File:
    data: bytes
    mtime_ms: int


class SimulatedIO(FileIO):
    """Files by path; directories are what lies before a slash."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._files: dict[str, _File] = {}

    def read(self, path: str) -> bytes:
        self._scheduler.pause(f"read {_short(path)}")
        found = self._files.get(path)
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
            raise CommitUnknown(f"'{path}': the answer was lost")
        if is_new:
            self._put(path, data)
        scheduler.landmark(f"created {_short(path)}" if is_new else f"lost the race for {_short(path)}")
        return is_new

    def open_output(self, path: str) -> pa.NativeFile:
        raise AssertionError(f"nothing writes files of rows here: {path}")

    def exists(self, path: str) -> bool:
        self._scheduler.pause(f"exists {_short(path)}")
        return path in self._files or any(p.startswith(f"{path}/") for p in self._files)

    def size(self, path: str) -> int:
        return len(self.read(path))

    def list(self, path: str) -> list[FileStatus]:
        self._scheduler.pause(f"list {_short(path)}")
        start = f"{path.rstrip('/')}/"
        found: dict[str, FileStatus] = {}
        for name, file in self._files.items():
            if name.startswith(start):
                first, slash, _ = name[len(start) :].partition("/")
                found[first] = FileStatus(start + first, len(file.data), file.mtime_ms, bool(slash))
        return [found[name] for name in sorted(found)]

    def delete(self, path: str) -> None:
        self._scheduler.pause(f"delete {_short(path)}")
        self._files.pop(path, None)
        if self._scheduler.loses(f"delete {_short(path)}"):
            raise Unavailable(f"'{path}': the answer was lost")

    def delete_dir(self, path: str) -> None:
        for name in sorted(name for name in self._files if name.startswith(f"{path}/")):
            self.delete(name)

    def makedirs(self, path: str) -> None:
        return

    def paths(self) -> list[str]:
        """All files, for checks."""
        return sorted(self._files)

    def _put(self, path: str, data: bytes) -> None:
        self._files[path] = _File(data, self._scheduler.time_ns() // 1_000_000)


def _short(path: str) -> str:
    return path.rpartition("/lakelog/")[2]

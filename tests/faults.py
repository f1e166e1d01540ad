"""Storage that goes wrong on demand: every call has a number and a name, and a plan says what happens to which."""

from __future__ import annotations

import io as streams
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import pyarrow as pa

from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.storage.file_io import FileIO, FileStatus

T = TypeVar("T")

DIE_BEFORE: Final = "die before"
"""The process is gone, the call was not made."""
DIE_AFTER: Final = "die after"
"""The call was made, and then the process is gone."""
FAIL_BEFORE: Final = "fail before"
"""Unavailable; nothing has happened."""
FAIL_AFTER: Final = "fail after"
"""Unavailable, although it has happened."""
LOST: Final = "lost answer"
"""It has happened; a create says CommitUnknown, every other call Unavailable."""
LOST_REQUEST: Final = "lost request"
"""It has not happened; a create says CommitUnknown, every other call Unavailable."""
LATE: Final = "late"
"""As LOST_REQUEST, but it does happen: before the third numbered call after this one."""
KINDS: Final = (DIE_BEFORE, DIE_AFTER, FAIL_BEFORE, FAIL_AFTER, LOST, LOST_REQUEST, LATE)
DEATHS: Final = (DIE_BEFORE, DIE_AFTER)

CHANGES: Final = frozenset(
    {
        "write",
        "create",
        "open_output",
        "close_output",
        "delete",
        "delete_dir",
        "delete_empty_dir",
        "makedirs",
        "rename_dir",
    }
)
READS: Final = frozenset({"read", "open_input", "exists", "size", "list"})

_LATE_BY: Final = 3


class Died(BaseException):
    """The process is gone: no handler of the code under test may catch it, and a dead process calls nothing more."""


@dataclass(frozen=True)
class Call:
    """One numbered call, from 1 on."""

    number: int
    name: str
    path: str


@dataclass(eq=False)
class FaultPlan:
    """What happens to which call. Shared by all storages of one process; thread-safe.

    ``faults`` maps the number of a call to one of ``KINDS``; only calls named in ``counted`` have numbers (reads may
    run in parallel, so their order is not the same twice). A listing lags behind by the last ``stale`` changes. Run
    once without faults: ``calls`` are then all the points at which something can go wrong.
    """

    faults: Mapping[int, str] = field(default_factory=dict)
    counted: frozenset[str] = CHANGES
    stale: int = 0
    calls: list[Call] = field(default_factory=list)
    dead: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._late: list[tuple[int, Callable[[], object]]] = []
        self.recent: deque[tuple[str, FileStatus | None]] = deque(maxlen=self.stale)

    @property
    def hit(self) -> bool:
        """Whether every planned fault has come; a test that never reached its fault shows nothing."""
        return all(number <= len(self.calls) for number in self.faults)

    def arrive(self) -> None:
        """All late calls happen now: what a network held back has come."""
        with self._lock:
            late, self._late = self._late, []
        for _, work in late:
            work()

    def around(self, name: str, path: str, work: Callable[[], T]) -> T:
        """Makes a call, or what the plan makes of it."""
        kind, number = self._begin(name, path)
        if kind == DIE_BEFORE:
            raise self._die(name, path)
        if kind == FAIL_BEFORE:
            raise Unavailable(f"{name} '{path}' failed as planned; nothing has happened")
        if kind in (LOST_REQUEST, LATE):
            if kind == LATE:
                with self._lock:
                    self._late.append((number + _LATE_BY, work))
            raise _unknown(name, path)
        result = work()
        if kind == DIE_AFTER:
            raise self._die(name, path)
        if kind == FAIL_AFTER:
            raise Unavailable(f"{name} '{path}' failed as planned, although it has happened")
        if kind == LOST:
            raise _unknown(name, path)
        return result

    def _begin(self, name: str, path: str) -> tuple[str | None, int]:
        with self._lock:
            if self.dead:
                raise Died
            if name not in self.counted:
                return None, 0
            self.calls.append(Call(len(self.calls) + 1, name, path))
            number = len(self.calls)
            due = [work for at, work in self._late if at <= number]
            self._late = [(at, work) for at, work in self._late if at > number]
        for work in due:
            work()
        return self.faults.get(number), number

    def _die(self, name: str, path: str) -> Died:
        self.dead = True
        return Died(f"{name} '{path}'")


@dataclass(frozen=True)
class FaultyFileIO(FileIO):
    """A storage on top of another one, with faults. What a process remembers of it is that of its plan."""

    inner: FileIO
    plan: FaultPlan

    @property
    def external_roots(self) -> tuple[str, ...]:
        return self.inner.external_roots

    def absolute(self, path: str) -> str:
        return self.inner.absolute(path)

    def read(self, path: str) -> bytes:
        return self.plan.around("read", path, lambda: self.inner.read(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self.plan.around("open_input", path, lambda: self.inner.open_input(path))

    def write(self, path: str, data: bytes) -> None:
        self.plan.around("write", path, lambda: self._made(path, lambda: self.inner.write(path, data)))

    def create(self, path: str, data: bytes) -> bool:
        return self.plan.around("create", path, lambda: self._made(path, lambda: self.inner.create(path, data)))

    def open_output(self, path: str) -> pa.NativeFile:
        sink = self.plan.around("open_output", path, lambda: self.inner.open_output(path))
        return pa.PythonFile(_Sink(self, path, sink), mode="w")

    def close_output(self, path: str, sink: pa.NativeFile) -> None:
        """The end of an output, which makes the file: a call like every other."""
        self.plan.around("close_output", path, lambda: self._made(path, sink.close))

    def exists(self, path: str) -> bool:
        return self.plan.around("exists", path, lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self.plan.around("size", path, lambda: self.inner.size(path))

    def list(self, path: str) -> list[FileStatus]:
        found = self.plan.around("list", path, lambda: self.inner.list(path))
        return self._as_it_was(path, found) if self.plan.stale else found

    def delete(self, path: str) -> None:
        self.plan.around("delete", path, lambda: self._gone([path], lambda: self.inner.delete(path)))

    def delete_dir(self, path: str) -> None:
        """A directory goes file by file: each is a call of its own."""
        for file in self._files_below(path):
            self.delete(file)
        self.plan.around("delete_dir", path, lambda: self.inner.delete_dir(path))

    def delete_empty_dir(self, path: str) -> None:
        self.plan.around("delete_empty_dir", path, lambda: self.inner.delete_empty_dir(path))

    def makedirs(self, path: str) -> None:
        self.plan.around("makedirs", path, lambda: self.inner.makedirs(path))

    def rename_dir(self, path: str, new_path: str) -> None:
        self.plan.around("rename_dir", path, lambda: self.inner.rename_dir(path, new_path))

    def _made(self, path: str, work: Callable[[], T]) -> T:
        new = bool(self.plan.stale) and not self.inner.exists(path)
        result = work()
        if new:
            self.plan.recent.append((path, None))
        return result

    def _gone(self, paths: list[str], work: Callable[[], None]) -> None:
        if self.plan.stale:
            before = {s.path: s for path in paths for s in self.inner.list(path.rpartition("/")[0])}
            work()
            self.plan.recent.extend((path, before[path]) for path in paths if path in before)
        else:
            work()

    def _files_below(self, path: str) -> list[str]:
        return [p for s in self.inner.list(path) for p in (self._files_below(s.path) if s.is_dir else [s.path])]

    def _as_it_was(self, path: str, now: list[FileStatus]) -> list[FileStatus]:
        """The listing with the last changes undone, the newest first."""
        names = {status.path: status for status in now}
        for changed, before in reversed(self.plan.recent):
            if changed.rpartition("/")[0] == path.rstrip("/"):
                names.pop(changed, None)
                if before is not None:
                    names[changed] = before
        return [names[name] for name in sorted(names)]


class _Sink(streams.RawIOBase):
    """An output whose end is a numbered call; a dead process does not end it."""

    def __init__(self, io: FaultyFileIO, path: str, sink: pa.NativeFile) -> None:
        super().__init__()
        self._io, self._path, self._sink = io, path, sink

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self._io.plan.dead:
            raise Died
        return int(self._sink.write(data) or len(memoryview(data)))  # type: ignore[call-overload]

    def tell(self) -> int:
        return int(self._sink.tell())

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if not self._io.plan.dead:
            self._io.close_output(self._path, self._sink)

    def __del__(self) -> None:
        """An output that nobody ended stays without an end."""


def crash_points(calls: list[Call]) -> Iterator[tuple[Call, str]]:
    """Every way for a process to end at these calls."""
    return ((call, kind) for call in calls for kind in DEATHS)


def _unknown(name: str, path: str) -> Exception:
    if name == "create":
        return CommitUnknown(f"'{path}' may or may not have been created, as planned")
    return Unavailable(f"{name} '{path}': the answer was lost, as planned")

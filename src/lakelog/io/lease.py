"""Leases: rights that end unless their owner renews them.

A lease is a small file, which its owner writes again at a third of its duration. It is over when the file is older than
the duration by the clock of the storage, when its owner gave it up, or when its owner is a process of this machine that
has ended. So a machine whose clock is wrong ends no lease. A lease says whom to wait for and whom to take over from.
What may happen only once is decided by a file that is created if absent.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import orjson

from lakelog.errors import CommitUnknown, LakelogError, NotFound, Unavailable
from lakelog.io.clock import LONG_AGO, Moment, monotonic_s, now_ms, pause
from lakelog.io.machine import has_ended, process_space
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.io.storage.storage_clock import StorageClock

DURATION_MS: Final = 60_000
"""Duration of the lease of a task without renewal."""
_RENEW: Final = 1 / 3
"""Age of a lease at renewal, as a fraction of its duration."""
_LINGER: Final = 2
"""Number of durations after its last use at which renewal of a lease stops."""
_PAUSE_S: Final = (0.05, 1.0)
"""First and longest wait for a lease of another process: each look costs a listing and a read."""
_LARGEST: Final = 16 << 20
_FORGOTTEN_MS: Final = 24 * 3_600_000
"""Age of a file without renewal after which its task is considered not done any more."""


@dataclass(frozen=True)
class Lease:
    """The lease of a file, which lasts ``duration_ms`` after each renewal; 0 if its owner gave it up.

    ``facts`` are what its owner notes. One that only a single process renews has ``machine`` and ``process``.
    """

    path: str
    duration_ms: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(io: FileIO, path: str) -> Lease | None:
        """The lease of a file, None if there is none; a torn file is a lease that was given up."""
        try:
            data = io.read(path)
            content = orjson.loads(data if len(data) < _LARGEST else b"")
            duration_ms = int(content.pop("timeout", 0)) or DURATION_MS  # earlier versions note none
            return Lease(path, duration_ms if int(content.pop("until")) else 0, content)
        except NotFound:
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            return Lease(path, 0)

    def to_bytes(self) -> bytes:
        """JSON. ``until`` is for earlier versions, which compare it with their own clocks."""
        until = now_ms() + self.duration_ms if self.duration_ms else 0
        return orjson.dumps({**self.facts, "until": until, "timeout": self.duration_ms})

    def is_over(self, written_ms: int, clock: StorageClock) -> bool:
        """True if it has ended, for a file of this time. Asks the storage for its time only if the lease seems old."""
        if not self.duration_ms or has_ended(self.facts.get("machine"), self.facts.get("process")):
            return True
        try:
            return clock.is_older(written_ms, self.duration_ms)
        except Unavailable:  # who only reads a table may not write its files
            return now_ms() - written_ms >= self.duration_ms


class KeptLease:
    """A lease that this process renews while it is in use, and for two durations after that.

    ``is_ours`` is asked before each renewal. ``is_lost`` is set once it is False, or the lease is dropped.
    """

    def __init__(self, io: FileIO, lease: Lease, is_ours: Callable[[], bool], renewed: Moment) -> None:
        self.io, self.lease, self.is_ours, self.renewed = io, lease, is_ours, renewed
        self.is_lost, self.users, self.used_s = False, 0, monotonic_s()
        self._lock = threading.Lock()

    def renew(self) -> bool:
        """Writes the lease again; False if it is lost. Raises Unavailable."""
        with self._lock:
            moment = Moment.now()
            self.is_lost = self.is_lost or not self.is_ours()
            if not self.is_lost:
                self.io.write(self.lease.path, self.lease.to_bytes())
                self.renewed = moment
            return not self.is_lost

    def drop(self) -> None:
        """Ends the renewal; returns when none is under way."""
        with self._lock:
            self.is_lost = True

    def begin_use(self) -> None:
        """Starts a use, during which the lease is renewed."""
        self.users += 1

    def end_use(self) -> None:
        """The reverse of ``begin_use``."""
        self.users, self.used_s = max(0, self.users - 1), monotonic_s()

    def abandon(self) -> None:
        """Ends the renewal soon. The interpreter calls it at any moment, in any thread, so it takes no lock."""
        self.users, self.used_s = 0, float("-inf")

    def is_good(self) -> bool:
        """True if the lease has not ended; renews it if this process was delayed. Raises Unavailable."""
        return not self.is_lost and (self.renewed.is_within(self.lease.duration_ms) or self.renew())

    def is_due(self) -> bool:
        """True if it should be renewed now."""
        return not self.is_lost and not self.renewed.is_within(self.lease.duration_ms * _RENEW)

    def is_unused(self) -> bool:
        """True if it needs no more renewals."""
        linger_s = self.lease.duration_ms * _LINGER / 1000
        return self.is_lost or (not self.users and monotonic_s() - self.used_s > linger_s)


class LeaseKeeper:
    """The leases that this process renews, from one background thread. A dead process renews nothing."""

    def __init__(self) -> None:
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._leases: dict[tuple[int, str], KeptLease] = {}
        self._threads: dict[int, threading.Thread] = {}

    def keep(
        self, io: FileIO, lease: Lease, is_ours: Callable[[], bool] = lambda: True, renewed: Moment | None = None
    ) -> KeptLease:
        """Renews a lease unless it is recent, and from now on. Raises Unavailable.

        ``renewed`` is when this process has written it, if it has just done so.
        """
        with self._lock:
            key = os.getpid(), lease.path
            kept = self._leases.get(key)
            if kept is None or kept.is_lost:
                kept = KeptLease(io, lease, is_ours, renewed or LONG_AGO)
            kept.io, kept.is_ours, kept.used_s = io, is_ours, monotonic_s()  # a newer handle may have newer credentials
            if kept.is_due():
                kept.renew()
            self._leases[key] = kept
            thread = self._threads.get(key[0])
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._run, name="lakelog-leases", daemon=True)
                self._threads[key[0]] = thread
                thread.start()
        self._wake.set()
        return kept

    def find(self, path: str) -> KeptLease | None:
        """The lease of a file that this process renews, None if it renews none."""
        return self._leases.get((os.getpid(), path))

    def drop(self, path: str) -> None:
        """Ends the renewal of a lease, because its owner has ended, or continues in another process."""
        with self._lock:
            kept = self._leases.pop((os.getpid(), path), None)
        if kept is not None:
            kept.drop()

    def _run(self) -> None:
        while True:
            with self._lock:
                for key in [key for key, kept in self._leases.items() if kept.is_unused()]:
                    del self._leases[key]
                leases = [kept for (process, _), kept in self._leases.items() if process == os.getpid()]
            for kept in leases:
                if kept.is_due():
                    with contextlib.suppress(Exception):  # retried soon; ``is_good`` is strict
                        kept.renew()
            pause_ms = min((kept.lease.duration_ms * _RENEW / 4 for kept in leases), default=None)
            self._wake.wait(None if pause_ms is None else pause_ms / 1000)
            self._wake.clear()


KEEPER: Final = LeaseKeeper()
"""That of this process: the tasks of a Spark job have no other place in common."""


@dataclass(frozen=True)
class Leases:
    """The leases of tasks, each of which one process does at a time: files ``<task>.<turn>`` of a directory.

    Each is created if absent, and the highest turn counts. It grows when a lease is taken over.
    """

    io: FileIO
    directory: str

    def take(self, task: str) -> Lease | None:
        """Takes the lease of a task, by its name (without a dot); None while another process has it."""
        of_task = self._files()
        files = of_task.pop(task, {})
        turn = max(files, default=-1)
        if files and self._held(files[turn]) is not None:
            return None
        others = (file for other in of_task.values() for file in other.values())
        unused = [file for file in others if self._clock.is_older(file.mtime_ms, _FORGOTTEN_MS)]
        facts = {"owner": new_uuid(), "machine": process_space(), "process": os.getpid()}
        lease = Lease(f"{self.directory}/{task}.{turn + 1}", DURATION_MS, facts)
        try:
            if not self.io.create(lease.path, lease.to_bytes()):
                return None
        except CommitUnknown:  # if it exists, it will end
            return None
        for file in (*files.values(), *unused):
            self.io.delete(file.path)
        return lease

    def release(self, lease: Lease) -> None:
        """Releases the lease; a failure is ignored, because the lease ends anyway."""
        with contextlib.suppress(LakelogError):
            self.io.delete(lease.path)

    @contextlib.contextmanager
    def renewing(self, lease: Lease) -> Iterator[None]:
        """Renews a lease that was just taken while the block runs."""
        KEEPER.keep(self.io, lease, renewed=Moment.now()).begin_use()
        try:
            yield
        finally:
            KEEPER.drop(lease.path)

    @contextlib.contextmanager
    def holding(self, task: str, wait_s: float = 0.0, busy: LakelogError | None = None) -> Iterator[bool]:
        """Holds the lease of a task for a block, which gets False if another process keeps it for ``wait_s``.

        Raises ``busy`` instead, if there is one.
        """
        deadline, number = monotonic_s() + wait_s, 0
        while (lease := self.take(task)) is None and monotonic_s() < deadline:
            pause(number, *_PAUSE_S)
            number += 1
        if lease is None and busy is not None:
            raise busy
        if lease is None:
            yield False
            return
        try:
            with self.renewing(lease):
                yield True
        finally:
            self.release(lease)

    def held(self) -> dict[str, Lease]:
        """The tasks that a process does now, and their leases. Costs a listing, and a read for each."""
        leases = {task: self._held(files[max(files)]) for task, files in sorted(self._files().items())}
        return {task: lease for task, lease in leases.items() if lease is not None}

    @cached_property
    def _clock(self) -> StorageClock:
        return StorageClock(self.io, self.directory.rpartition("/lakelog/")[0])

    def _files(self) -> dict[str, dict[int, FileStatus]]:
        """Task → turn → file."""
        files: dict[str, dict[int, FileStatus]] = {}
        self._clock.begin()
        for file in self.io.list(self.directory):
            task, _, turn = file.name.rpartition(".")
            files.setdefault(task, {})[int(turn) if turn.isdigit() else -1] = file
        return files

    def _held(self, file: FileStatus) -> Lease | None:
        lease = Lease.read(self.io, file.path)
        return None if lease is None or lease.is_over(file.mtime_ms, self._clock) else lease

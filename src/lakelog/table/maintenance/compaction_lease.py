"""Leases that keep processes apart: one compactor per bucket, one publisher, as far as files can guarantee it.

For these a lease saves work but is not part of correctness. The commit of a compaction itself checks that the files it
replaces still exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import orjson

from lakelog.errors import CommitUnknown, LakelogError, NotFound
from lakelog.io import clock
from lakelog.io.machine import is_running, machine_identity
from lakelog.io.names import new_uuid, random_fraction
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.storage_clock import storage_now_ms

LEASE_MS: Final = 60_000
"""Duration of a lease without renewal."""
_PAUSE_S: Final = 0.05
_FORGOTTEN_MS: Final = 24 * 3_600_000
"""Age of a lease file without renewal after which its bucket is considered not compacted any more."""


@dataclass(frozen=True)
class Lease:
    """The right of one compactor to one bucket; ``turn`` counts takeovers without a release."""

    task: str
    turn: int
    owner: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.task}.{self.turn}"


@dataclass(frozen=True)
class Holder:
    """A process that holds a lease: the bucket, and the machine (see ``machine_identity``)."""

    task: str
    machine: str
    process: int


@dataclass(frozen=True)
class Leases:
    """The leases of one branch of a table: files ``<bucket>.<turn>`` in ``directory``, the highest turn is valid."""

    io: FileIO
    directory: str

    def take(self, partition: bytes, bucket: int) -> Lease | None:
        """Takes the lease of a bucket; None while another compactor has it.

        A lease is free if it has expired, or if its owner is a process of this machine that has ended.
        """
        return self.take_task(bucket_task(partition, bucket))

    def take_task(self, task: str) -> Lease | None:
        """The same for any exclusive task, by its name (without a dot)."""
        turns = self._turns(task)
        if turns and self._is_active(f"{task}.{turns[-1]}"):
            return None
        lease = Lease(task, turns[-1] + 1 if turns else 0, new_uuid())
        try:
            if not self.io.create(f"{self.directory}/{lease.name}", _content(lease)):
                return None
        except CommitUnknown:  # if it exists, it will expire
            return None
        for turn in turns:
            self.io.delete(f"{self.directory}/{replace(lease, turn=turn).name}")
        return lease

    @contextlib.contextmanager
    def exclusive(self, task: str, wait_s: float, busy: LakelogError) -> Iterator[None]:
        """Holds the lease of a task for a block; raises ``busy`` if another process keeps it for ``wait_s``."""
        deadline = clock.monotonic_s() + wait_s
        while (lease := self.take_task(task)) is None:
            if clock.monotonic_s() > deadline:
                raise busy
            clock.sleep(_PAUSE_S * (0.5 + random_fraction()))
        try:
            with self.renewing(lease):
                yield
        finally:
            self.release(lease)

    def renew(self, lease: Lease) -> None:
        """Renews the lease for its full duration from now."""
        self.io.write(f"{self.directory}/{lease.name}", _content(lease))

    def release(self, lease: Lease) -> None:
        """Releases the lease; a failure is ignored, because the lease expires anyway."""
        with contextlib.suppress(LakelogError):
            self.io.delete(f"{self.directory}/{lease.name}")

    @contextlib.contextmanager
    def renewing(self, lease: Lease) -> Iterator[None]:
        """Renews the lease at intervals while the block runs."""
        done = threading.Event()

        def renewing() -> None:
            while not done.wait(LEASE_MS / 3000):
                with contextlib.suppress(LakelogError):
                    self.renew(lease)

        thread = threading.Thread(target=renewing, name="lakelog-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def held(self) -> list[Holder]:
        """The current holders and their leases. Costs a listing, and a read for each."""
        newest: dict[str, int] = {}
        for status in self.io.list(self.directory):
            task, _, turn = status.name.rpartition(".")
            if turn.isdigit():
                newest[task] = max(int(turn), newest.get(task, 0))
        found = ((task, self._holder(f"{task}.{turn}")) for task, turn in sorted(newest.items()))
        return [replace(holder, task=task) for task, holder in found if holder is not None]

    def _turns(self, task: str) -> list[int]:
        """The existing turns of a bucket, in order; deletes files that are long unused."""
        found, others = [], []
        for status in self.io.list(self.directory):
            other, _, turn = status.name.rpartition(".")
            if other == task and turn.isdigit():
                found.append(int(turn))
            else:
                others.append(status)
        if any(status.mtime_ms < clock.now_ms() - _FORGOTTEN_MS for status in others):
            oldest = storage_now_ms(self.io, self.directory.rpartition("/lakelog/")[0]) - _FORGOTTEN_MS
            for status in others:
                if status.mtime_ms < oldest:
                    self.io.delete(status.path)
        return sorted(found)

    def _is_active(self, name: str) -> bool:
        return self._holder(name) is not None

    def _holder(self, name: str) -> Holder | None:
        try:
            held = orjson.loads(self.io.read(f"{self.directory}/{name}"))
            until, found = int(held["until"]), Holder(name, held["machine"], int(held["process"]))
        except (NotFound, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None
        is_alive = found.machine != machine_identity() or is_running(found.process)
        return found if until > clock.now_ms() and is_alive else None


def bucket_task(partition: bytes, bucket: int) -> str:
    """The name of a bucket in leases."""
    return f"{hashlib.sha256(partition).hexdigest()[:16]}-{bucket}"


def _content(lease: Lease) -> bytes:
    return orjson.dumps(
        {
            "owner": lease.owner,
            "machine": machine_identity(),
            "process": os.getpid(),
            "until": clock.now_ms() + LEASE_MS,
        }
    )

"""The writers that may have rows in a table's log, and their leases (``<table>/lakelog/staged/<writer>/``).

A writer registers before its first record. The file ``origin`` has the end of the log at that time, the lower bound for
healing. The file ``lease`` is renewed while the writer is alive (``io/lease.py``). After that, the next process takes
its open rows back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import orjson

from lakelog.io.clock import Moment
from lakelog.io.lease import KEEPER, KeptLease, Lease
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.io.storage.storage_clock import StorageClock
from lakelog.paimon.types.checked_values import offsets_of, read_as

BATCH: Final = "batch"
STREAM: Final = "stream"
REPLACEMENT: Final = "replace-"
"""Prefix of the writers of the changes, for the log, of statements that replace files (RFC 21). Each writes once."""
_CHANGES: Final = "changes"
_ORIGIN = "origin"
_LEASE = "lease"
_MARK = "batch"
"""File of batch writers of versions before leases."""


@dataclass(frozen=True)
class Registration:
    """A writer of the log: when it registered (ms since 1970), its kind, and whether its lease is good.

    ``settled`` is bucket → offset below which all of its rows were checked after the lease ended, or None before that.
    """

    time_ms: int
    kind: str
    is_alive: bool = False
    settled: Mapping[int, int] | None = None

    @property
    def is_batch(self) -> bool:
        """True for a batch writer, which never resumes."""
        return self.kind == BATCH

    @property
    def is_open(self) -> bool:
        """True if it may have rows in the log to take back, now or after its lease ends."""
        return self.settled is None


@dataclass(frozen=True)
class Registrations:
    """The registered writers of one table."""

    io: FileIO
    table_path: str

    @property
    def _root(self) -> str:
        return f"{self.table_path}/lakelog/staged"

    def origin_path(self, writer: str) -> str:
        """The file with the end of the log before the writer's first record; it is deleted first."""
        return f"{self._root}/{writer}/{_ORIGIN}"

    def origin(self, writer: str) -> dict[int, int]:
        """Bucket → the end of the log before the writer's first record. Raises NotFound for a forgotten writer."""
        return read_as(self.io, self.origin_path(writer), offsets_of)

    def register(self, writer: str, ends: Mapping[int, int], kind: str = "", timeout_ms: int = 0) -> bool:
        """Stores the end of the log before the writer's first record; False if it was stored before.

        The lease is written first, if there is a ``kind``. A registration without one is from a version without leases,
        and counts as dead.
        """
        if kind and not self.is_registered(writer):
            self.write_lease(writer, kind, timeout_ms)
        return self.io.create(self.origin_path(writer), _origin_bytes(ends))

    def lower(self, writer: str, ends: Mapping[int, int]) -> None:
        """Replaces the origin of a registered writer by an earlier one: it has rows before."""
        self.io.write(self.origin_path(writer), _origin_bytes(ends))

    def lease_path(self, writer: str) -> str:
        """The file of the writer's lease."""
        return f"{self._root}/{writer}/{_LEASE}"

    def write_lease(
        self, writer: str, kind: str, timeout_ms: int = 0, settled: Mapping[int, int] | None = None
    ) -> None:
        """Replaces the writer's lease; without a timeout it has ended."""
        lease = _lease_of(self.lease_path(writer), kind, timeout_ms, settled)
        self.io.write(lease.path, lease.to_bytes())

    def keep(self, writer: str, kind: str, timeout_ms: int, renewed: Moment | None = None) -> KeptLease:
        """Renews the lease of a registered writer from now on, see ``LeaseKeeper.keep``. Raises Unavailable."""
        lease = _lease_of(self.lease_path(writer), kind, timeout_ms)
        return KEEPER.keep(self.io, lease, partial(self.is_registered, writer), renewed)

    def kept(self, writer: str) -> KeptLease | None:
        """The writer's lease, if this process renews it."""
        return KEEPER.find(self.lease_path(writer))

    def abandon(self, writer: str) -> None:
        """Ends the renewal of a lease whose writer no code can close any more: another process takes over."""
        kept = self.kept(writer)
        if kept is not None:
            kept.abandon()

    def drop(self, writer: str) -> None:
        """Ends the renewal of the writer's lease by this process."""
        KEEPER.drop(self.lease_path(writer))

    def writers(self) -> list[str]:
        """Writers with a registration, or with records in their lane."""
        return sorted(s.name for s in self.io.list(self._root) if s.is_dir)

    def all(self) -> dict[str, Registration]:
        """The registered writers."""
        found = ((writer, self._files(writer)) for writer in self.writers())
        registered = ((writer, self._registration(files)) for writer, files in found if _ORIGIN in files)
        return {writer: registration for writer, registration in registered if registration is not None}

    def find(self, writer: str) -> Registration | None:
        """A writer by its lease, None if it has none."""
        files = self._files(writer)
        return self._registration(files) if _LEASE in files else None

    def remains(self, timeout_ms: int) -> list[str]:
        """Leftovers of processes that died while they registered, or renewed a lease of a forgotten writer.

        These are directories without a registration or records, whose files are older than the timeout. A decision
        about missing changes may come after others have appended them, and then decides nothing.
        """
        out = []
        for writer in self.writers():
            files = self._files(writer)
            is_idle = all(name == _LEASE or name.startswith(".") for name in files)
            if writer.startswith(REPLACEMENT):
                is_idle = _ORIGIN not in files
            if is_idle and all(self._clock.is_older(file.mtime_ms, timeout_ms) for file in files.values()):
                out.append(writer)
        return out

    def changes_path(self, writer: str) -> str:
        """The file that decides which attempt of a writer of missing changes counts (RFC 21)."""
        return f"{self._root}/{writer}/{_CHANGES}"

    def is_registered(self, writer: str) -> bool:
        """True if the writer has registered and is not forgotten."""
        return self.io.exists(self.origin_path(writer))

    def forget(self, writer: str) -> None:
        """Deletes all files of a writer here; only after its epochs are sealed or taken back, and markers appended.

        Deletes the origin first: a reader that does not find it knows that no epoch of this writer is open.
        """
        self.io.delete(self.origin_path(writer))
        self.io.delete_dir(f"{self._root}/{writer}")

    @cached_property
    def _clock(self) -> StorageClock:
        return StorageClock(self.io, self.table_path)

    def _files(self, writer: str) -> dict[str, FileStatus]:
        self._clock.begin()
        return {file.name: file for file in self.io.list(f"{self._root}/{writer}")}

    def _registration(self, files: Mapping[str, FileStatus]) -> Registration | None:
        """The writer of these files, None if another process is deleting them."""
        file = files.get(_LEASE)
        if file is None:  # of a version without leases
            return Registration(files[_ORIGIN].mtime_ms, BATCH if _MARK in files else STREAM)
        time_ms, lease = files.get(_ORIGIN, file).mtime_ms, Lease.read(self.io, file.path)
        if lease is None:
            return None
        kind, settled = BATCH if lease.facts.get("kind") == BATCH else STREAM, lease.facts.get("settled")
        if settled is None:
            return Registration(time_ms, kind, not lease.is_over(file.mtime_ms, self._clock))
        with contextlib.suppress(TypeError, ValueError, AttributeError):  # a torn file is a lease that was given up
            return Registration(time_ms, kind, False, {int(b): int(o) for b, o in settled.items()})
        return Registration(time_ms, STREAM)


def _lease_of(path: str, kind: str, timeout_ms: int, settled: Mapping[int, int] | None = None) -> Lease:
    offsets = None if settled is None else {str(b): o for b, o in settled.items()}
    return Lease(path, timeout_ms, {"kind": kind, "settled": offsets, "closed": False})


def _origin_bytes(ends: Mapping[int, int]) -> bytes:
    return orjson.dumps({str(bucket): offset for bucket, offset in ends.items()})

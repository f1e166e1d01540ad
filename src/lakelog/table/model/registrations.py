"""The writers that may have rows in a table's log, and their leases (``<table>/lakelog/staged/<writer>/``).

A writer registers before its first record. The file ``origin`` has the end of the log at that time, the lower bound for
healing. The file ``lease`` has the time until which the writer is alive. After that, the next process takes its open
rows back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import now_ms
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.paimon.types.checked_values import metadata_json, offsets_of, read_as

BATCH: Final = "batch"
STREAM: Final = "stream"
REPLACEMENT: Final = "replace-"
"""Prefix of the writers of the changes, for the log, of statements that replace files (RFC 21). Each writes once."""
_CHANGES: Final = "changes"
_ORIGIN = "origin"
_LEASE = "lease"
_SKEW: Final = 3
"""Number of its timeouts at which a lease may end: clocks may differ by two of them."""
_MARK = "batch"
"""File of batch writers of versions before leases."""


@dataclass(frozen=True)
class Lease:
    """The end of a writer's lease (ms since 1970), and the writer's kind.

    ``settled`` is bucket → offset below which all of its rows were checked after the lease expired, or None before
    that. ``closed`` means that the writer has committed and closed; only its late tasks may still append.
    ``timeout_ms`` is how long a lease lasts, 0 if an earlier version wrote it.
    """

    kind: str
    until_ms: int
    settled: Mapping[int, int] | None = None
    closed: bool = False
    timeout_ms: int = 0

    @property
    def is_alive(self) -> bool:
        """True if the lease has not expired.

        One that ends much later than a lease can was written by a machine whose clock is wrong, and counts as expired:
        nobody would take its writer over for as long as that clock was ahead.
        """
        left_ms = self.until_ms - now_ms()
        return left_ms >= 0 and (not self.timeout_ms or left_ms <= _SKEW * self.timeout_ms)

    def to_bytes(self) -> bytes:
        """JSON."""
        settled = None if self.settled is None else {str(b): o for b, o in self.settled.items()}
        found = {"kind": self.kind, "until": self.until_ms, "settled": settled, "closed": self.closed}
        return orjson.dumps(found | {"timeout": self.timeout_ms})

    @staticmethod
    def from_bytes(data: bytes) -> Lease:
        """The reverse of ``to_bytes``; a torn file is an expired lease."""
        try:
            found: dict[str, Any] = metadata_json(data)
            settled = found["settled"]
            offsets = None if settled is None else {int(b): int(o) for b, o in settled.items()}
            timeout_ms = int(found.get("timeout", 0))
            return Lease(str(found["kind"]), int(found["until"]), offsets, bool(found["closed"]), timeout_ms)
        except (Corrupt, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            return Lease(STREAM, 0)


@dataclass(frozen=True)
class Registration:
    """A writer of the log: when it registered (ms since 1970), and its lease."""

    time_ms: int
    lease: Lease

    @property
    def is_batch(self) -> bool:
        """True for a batch writer, which never resumes."""
        return self.lease.kind == BATCH

    @property
    def is_open(self) -> bool:
        """True if it may have rows in the log to take back, now or after its lease expires."""
        return self.lease.settled is None or self.lease.is_alive


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

    def register(self, writer: str, ends: Mapping[int, int], lease: Lease | None = None) -> bool:
        """Stores the end of the log before the writer's first record; False if it was stored before.

        The lease is written first. A registration without one is from a version without leases, and counts as dead.
        """
        if lease is not None and not self.is_registered(writer):
            self.write_lease(writer, lease)
        return self.io.create(self.origin_path(writer), _origin_bytes(ends))

    def lower(self, writer: str, ends: Mapping[int, int]) -> None:
        """Replaces the origin of a registered writer by an earlier one: it has rows before."""
        self.io.write(self.origin_path(writer), _origin_bytes(ends))

    def write_lease(self, writer: str, lease: Lease) -> None:
        """Replaces the writer's lease."""
        self.io.write(f"{self._root}/{writer}/{_LEASE}", lease.to_bytes())

    def lease(self, writer: str) -> Lease | None:
        """The writer's lease, None if it has none."""
        try:
            return Lease.from_bytes(self.io.read(f"{self._root}/{writer}/{_LEASE}"))
        except NotFound:
            return None

    def writers(self) -> list[str]:
        """Writers with a registration, or with records in their lane."""
        return sorted(s.name for s in self.io.list(self._root) if s.is_dir)

    def all(self) -> dict[str, Registration]:
        """The registered writers."""
        out = {}
        for writer in self.writers():
            found = {s.name: s for s in self.io.list(f"{self._root}/{writer}")}
            lease = self.lease(writer) if _LEASE in found else _lease_of_old(found)
            if _ORIGIN in found and lease is not None:  # else another process is deleting it
                out[writer] = Registration(found[_ORIGIN].mtime_ms, lease)
        return out

    def remains(self, before_ms: int) -> list[str]:
        """Leftovers of processes that died while they registered, or renewed a lease of a forgotten writer.

        These are directories without a registration or records, whose files are older than a time (ms since 1970). A
        decision about missing changes may come after others have appended them, and then decides nothing.
        """
        out = []
        for writer in self.writers():
            found = self.io.list(f"{self._root}/{writer}")
            is_idle = all(s.name == _LEASE or s.name.startswith(".") for s in found)
            if writer.startswith(REPLACEMENT):
                is_idle = all(s.name != _ORIGIN for s in found)
            if is_idle and all(s.mtime_ms < before_ms for s in found):
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


def _origin_bytes(ends: Mapping[int, int]) -> bytes:
    return orjson.dumps({str(bucket): offset for bucket, offset in ends.items()})


def _lease_of_old(found: Mapping[str, FileStatus]) -> Lease:
    """The expired lease for a writer of a version without leases."""
    return Lease(BATCH if _MARK in found else STREAM, 0)

"""Renews the leases of this process's active writers, from one background thread.

A lease is renewed while a write of the writer runs here, and for some time after. Spark runs the tasks of a job one
after the other, and commits after the last has ended. A dead process renews nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from typing import Final

from lakelog.errors import Fenced
from lakelog.io.clock import now_ms
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import Lease

_LINGER: Final = 2.0
"""Number of timeouts after its last write here at which renewal of a writer's lease stops."""
_MOST_UNUSED: Final = 1_000
"""Maximum number of unrenewed leases to remember, because a suspended process must know that it had one."""
_RENEW: Final = 1 / 3
"""Age of a lease at renewal, as a fraction of the timeout."""


@dataclass
class _RenewedLease:
    """A lease that this process renews; ``is_lost`` is set once the writer is forgotten."""

    table: DynamicTable
    writer: str
    kind: str
    timeout_ms: int
    renewed_ms: int = 0
    active: int = 0
    used_ms: int = 0
    is_lost: bool = False

    def renew(self) -> bool:
        """Writes the lease again; False if the writer is no longer registered."""
        now = now_ms()
        if not self.table.registered.is_registered(self.writer):
            self.is_lost = True
            return False
        self.table.registered.write_lease(
            self.writer, Lease(self.kind, now + self.timeout_ms, timeout_ms=self.timeout_ms)
        )
        self.renewed_ms = now
        return True

    def is_due(self) -> bool:
        return not self.is_lost and now_ms() - self.renewed_ms >= self.timeout_ms * _RENEW

    def is_unused(self) -> bool:
        return not self.active and now_ms() - self.used_ms > self.timeout_ms * _LINGER


_Key = tuple[int, str, str]
_RENEWED: dict[_Key, _RenewedLease] = {}
_LOCK = threading.Lock()
_THREADS: dict[int, threading.Thread] = {}
_WAKE = threading.Event()


def _key(table: DynamicTable, writer: str) -> _Key:
    return os.getpid(), table.path, writer


def keep_lease(table: DynamicTable, writer: str, kind: str) -> None:
    """Writes the lease of a registered writer unless it is recent, and renews it from now on. Raises Unavailable."""
    with _LOCK:
        key = _key(table, writer)
        entry = _RENEWED.get(key)
        if entry is None or entry.is_lost:
            timeout = table.lease_ms
            entry = _RenewedLease(table, writer, kind, timeout)
        entry.table, entry.used_ms = table, now_ms()  # a newer handle may have newer credentials
        if entry.is_due():
            entry.renew()
        _RENEWED[key] = entry
        thread = _THREADS.get(os.getpid())
        if thread is None or not thread.is_alive():
            thread = _THREADS[os.getpid()] = threading.Thread(
                target=_run, args=(_RENEWED, _LOCK, _WAKE), name="lakelog-leases", daemon=True
            )
            thread.start()
    _WAKE.set()


def drop_lease(table: DynamicTable, writer: str) -> None:
    """Stops renewing the lease, because the writer has closed or continues in another process."""
    with _LOCK:
        _RENEWED.pop(_key(table, writer), None)


def abandon_lease(table: DynamicTable, writer: str) -> None:
    """Stops renewing the lease of a writer that nobody can close any more, so that another process takes it over.

    The interpreter calls it at any moment, also in a thread that holds the lock. So it takes none, and changes no dict.
    """
    entry = _RENEWED.get(_key(table, writer))
    if entry is not None:
        entry.active, entry.used_ms = 0, 0


def begin_use(table: DynamicTable, writer: str) -> None:
    """Marks the start of a registered writer's write; this process renews its lease until ``end_use``."""
    entry = _RENEWED.get(_key(table, writer))
    if entry is not None:
        entry.active += 1


def end_use(table: DynamicTable, writer: str) -> None:
    """The reverse of ``begin_use``."""
    entry = _RENEWED.get(_key(table, writer))
    if entry is not None:
        entry.active = max(0, entry.active - 1)
        entry.used_ms = now_ms()


def check_lease(table: DynamicTable, writer: str) -> None:
    """Renews the lease if the process was delayed; called before records are appended.

    Raises Fenced for a writer that was considered dead and forgotten in the meantime; Unavailable.
    """
    entry = _RENEWED.get(_key(table, writer))
    if entry is None or (not entry.is_lost and now_ms() - entry.renewed_ms < entry.timeout_ms):
        return
    if entry.is_lost or not entry.renew():
        raise Fenced(
            f"writer {writer} of table {table.name} did not renew its lease for 'log.writer-timeout' "
            f"({entry.timeout_ms / 1000:g} s), and its rows were aborted: write them again"
        )


def _run(leases: dict[_Key, _RenewedLease], lock: threading.Lock, wake: threading.Event) -> None:
    while True:
        with lock:
            for key in [key for key, entry in leases.items() if entry.is_unused()][:-_MOST_UNUSED]:
                del leases[key]
            own = [(key, k) for key, k in leases.items() if key[0] == os.getpid() and not k.is_unused()]
        if not own:
            wake.wait()
            wake.clear()
            continue
        for key, entry in own:
            if key in leases and entry.is_due():
                with contextlib.suppress(Exception):  # retried soon; ``check_lease`` is strict
                    entry.renew()
        wake.wait(min(entry.timeout_ms for _, entry in own) * _RENEW / 4000)
        wake.clear()

"""The thread that seals the epochs of an open writer each ``commit.interval``."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.options.log import COMMIT_INTERVAL
from lakelog.options.table import WRITE_ONLY
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.commit.take_over import take_over_best_effort
from lakelog.table.maintenance.background import CompactionWorker, stop_workers, worker_for
from lakelog.table.model.dynamic_table import DynamicTable

_LOG = logging.getLogger("lakelog.seal")


class Sealer:
    """Seals the epochs of one open writer each ``commit.interval``, even if none follow.

    The thread runs in the Python process that commits, together with the worker that compacts the table. If either
    fails, the next call raises the error. After each seal it takes over from dead writers. ``work`` seals.
    """

    def __init__(
        self,
        committer: Committer,
        worker: CompactionWorker | None = None,
        work: Callable[[Committer], Snapshot | None] = seal,
    ) -> None:
        self.committer = committer
        self._given, self._work = worker, work
        self._key = (os.getpid(), committer.table.identity.key, committer.writer)
        self._wake = threading.Event()
        self._failure: Exception | None = None
        self._last = float("-inf")
        self._thread: threading.Thread | None = None
        self._busy = threading.Lock()
        self._stopped = threading.Event()

    @property
    def is_due(self) -> bool:
        """True if the last seal is ``commit.interval`` old."""
        return monotonic_s() >= self._last + self._interval_s

    def notify(self) -> None:
        """Signals that an epoch was decided and healed. Raises the error of the last failed seal or compaction."""
        failure, self._failure = self._failure or self._worker.take_failure(), None
        if failure is not None:
            raise failure
        if self._thread is None or not self._thread.is_alive():
            with _LOCK:
                _SEALERS[self._key] = self
            self._thread = threading.Thread(target=self._run, name="lakelog-seal", daemon=True)
            self._thread.start()
        self._wake.set()

    def seal_now(self) -> Snapshot | None:
        """Seals at once, in the caller's thread."""
        with self._busy:
            self._last = monotonic_s()
            return self._work(self.committer)

    def leave(self) -> None:
        """Stops without a wait; epochs that wait are left to the next process, as after a death."""
        self._stopped.set()
        self._wake.set()
        with _LOCK:
            _SEALERS.pop(self._key, None)

    def stop(self) -> None:
        """Stops after the current seal; ``seal_staged`` handles epochs that wait for the next one."""
        self.leave()
        if self._thread is not None:
            self._thread.join()

    @property
    def _interval_s(self) -> float:
        return self.committer.table.options.need(COMMIT_INTERVAL).total_seconds()

    @property
    def _worker(self) -> CompactionWorker:
        return worker_for(self.committer.table) if self._given is None else self._given

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped.wait(max(0.0, self._last + self._interval_s - monotonic_s())):
                return
            table = self.committer.table
            compacts = not table.options.need(WRITE_ONLY)
            try:
                if compacts:
                    self._worker.wait_for_room(table)
                if self._stopped.is_set():
                    return
                if self.seal_now() is not None and compacts:
                    self._worker.notify(table)
                take_over_best_effort(table)
            except Exception as failure:
                _LOG.warning("sealing table %s failed: %s", table.name, failure, extra=fields(table=table.name))
                self._failure = failure


def stop_sealing(table: DynamicTable, writer: str) -> None:
    """Ends the thread that seals the epochs of a writer here; another one begins with its next epoch."""
    with _LOCK:
        sealer = _SEALERS.get((os.getpid(), table.identity.key, writer))
    if sealer is not None:
        sealer.stop()


_SEALERS: dict[tuple[int, str, str], Sealer] = {}
_LOCK = threading.RLock()  # the end of a writer that was dropped may come at any moment


def seal_all() -> None:
    """Stops the threads of this process before the interpreter exits, because a thread inside Arrow would crash it.

    Seals their remaining epochs here, so that a process that ends leaves no epoch without a snapshot.
    """
    stop_workers()
    with _LOCK:
        sealers = [sealer for (process, *_), sealer in _SEALERS.items() if process == os.getpid()]
    for sealer in sealers:
        sealer.stop()
        with contextlib.suppress(LakelogError, OSError):
            sealer.seal_now()


# Not with ``atexit``, which runs after Python closes its thread pools: sealing reads and writes files in them.
threading._register_atexit(seal_all)  # type: ignore[attr-defined]


def sealer_for(table: DynamicTable, writer: str) -> Sealer:
    """The sealer of a streaming writer here, with its committer; cached, so that an empty epoch reads nothing."""
    with _LOCK:
        key = (os.getpid(), table.identity.key, writer)
        sealer = _SEALERS.get(key)
        if sealer is None:
            sealer = _SEALERS[key] = Sealer(Committer(table, writer))
        sealer.committer.table = table
        return sealer

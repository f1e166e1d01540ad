"""A task writer in a thread of its own, which writes rows together that arrive within ``log-store.linger``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Final

import pyarrow as pa

from lakelog.io.clock import monotonic_s
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.staging.task_writer import TaskWriter

_MOST_BYTES: Final = 16 << 20
"""Waiting rows that are written at once, without lingering; ``write`` then waits, so memory stays bounded."""


class LingeringTask:
    """Collects rows for a time and then writes them as one; has the methods of a TaskWriter.

    All of the task's work runs in ``thread``, an executor of one thread, so that one client of the log appends its
    records in order. The error of an earlier write is raised by the next call.
    """

    def __init__(self, thread: ThreadPoolExecutor, make: Callable[[], TaskWriter], linger_s: float) -> None:
        self._thread, self._linger_s = thread, linger_s
        self._task = thread.submit(make).result()
        self._lock, self._now = threading.Lock(), threading.Event()
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0
        self._written: Future[None] | None = None
        """The end of the newest write that was begun."""
        self._failure: BaseException | None = None
        """What the first failed write raised; later ones write nothing and raise it, too."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows; they are in the log after the linger time. Raises what an earlier write raised."""
        if self._written is not None and self._written.done():
            self._written.result()
        if batch.num_rows == 0:
            return
        with self._lock:
            is_first = not self._rows
            self._rows.append(batch)
            self._bytes += batch.nbytes
            is_full = self._bytes >= _MOST_BYTES
            if is_first:
                self._now.clear()
                self._written = self._thread.submit(self._write, monotonic_s() + self._linger_s)
        if is_full:
            self._wait()

    @property
    def written(self) -> int:
        """As ``TaskWriter.written``."""
        return self._task.written

    @property
    def has_appended(self) -> bool:
        """As ``TaskWriter.has_appended``; after ``close``, of all its rows."""
        return self._task.has_appended

    def flush_log(self) -> None:
        """As ``TaskWriter.flush_log``, for all rows so far; each write ends with it."""
        self._wait()

    def finish(self) -> AttemptResult:
        """As ``TaskWriter.finish``, with all rows so far."""
        self._wait()
        return self._thread.submit(self._task.finish).result()

    def close(self) -> None:
        """As ``TaskWriter.close``; rows that still wait are not written."""
        with self._lock:
            self._rows, self._bytes = [], 0
        self._now.set()
        self._thread.submit(self._task.close).result()

    def _wait(self) -> None:
        """Writes the waiting rows now. Raises what the write raises."""
        self._now.set()
        if self._written is not None:
            self._written.result()

    def _write(self, due_s: float) -> None:
        self._now.wait(max(0.0, due_s - monotonic_s()))
        with self._lock:
            rows, self._rows, self._bytes = self._rows, [], 0
        if self._failure is not None:
            raise self._failure
        try:
            for batch in _joined(rows):
                self._task.write(batch)
            self._task.flush_log()
        except BaseException as why:
            self._failure = why
            raise


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in as few batches as their schemas permit."""
    for _, run in groupby(batches, key=lambda batch: batch.schema):
        yield from pa.Table.from_batches(run).combine_chunks().to_batches()

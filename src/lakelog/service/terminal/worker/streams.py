"""The streaming statements of a terminal, which run in parallel to the others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.io.clock import monotonic_s
from lakelog.options.registry import Registry
from lakelog.service.terminal.protocol.config import Limits
from lakelog.service.terminal.protocol.error_report import failure_of
from lakelog.service.terminal.protocol.results import Shown, row_batches

_STREAMS: Final[Registry[Any]] = Registry(
    "stream",
    {
        "show": "lakelog.spark.engine.streaming_query:show_stream",
        "facts": "lakelog.spark.engine.streaming_query:stream_facts",
    },
)
_POLL_S: Final = 0.5


@dataclass
class _Stream:
    """One running query; ``text`` is its statement."""

    execution: int
    number: int
    text: str
    query: Any
    began: float
    shown: Shown
    stopped: bool = False


class Streams:
    """Runs streaming SELECTs and watches the queries of streaming INSERTs; one thread reports on all of them."""

    def __init__(self, limits: Limits, send: Callable[..., None]) -> None:
        self._limits, self._send = limits, send
        self._running: list[_Stream] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, execution: int, number: int, text: str, frame: Any) -> None:
        """Starts a streaming SELECT. Raises InvalidRequest if too many run."""
        self._check_room()
        stream = _Stream(execution, number, text, None, monotonic_s(), Shown())
        fields = [{"name": f.name, "type": f.dataType.simpleString()} for f in frame.schema.fields]
        self._send(execution, "columns", number, columns=fields)
        show = _STREAMS.load("show")
        stream.query = show(frame, self._limits.max_rows, lambda rows: self._rows(stream, rows))
        self._add(stream)

    def add(self, execution: int, number: int, text: str, query: Any) -> None:
        """Watches a running query. Raises InvalidRequest, and stops it, if too many run."""
        try:
            self._check_room()
        except InvalidRequest:
            query.stop()
            raise
        self._add(_Stream(execution, number, text, query, monotonic_s(), Shown()))

    def stop_all(self, execution: int | None = None, number: int | None = None) -> None:
        """Stops all streams, those of an execution, or one of them; does not wait for their end."""
        with self._lock:
            for stream in self._running:
                if execution in (None, stream.execution) and number in (None, stream.number):
                    stream.stopped = True
        self._wake.set()
        if execution is None:
            self._stop_marked()

    def _add(self, stream: _Stream) -> None:
        with self._lock:
            self._running.append(stream)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="streams", daemon=True)
                self._thread.start()
        self._wake.set()

    def _check_room(self) -> None:
        with self._lock:
            running = len(self._running)
        if running >= self._limits.max_streams:
            raise InvalidRequest(
                f"{running} streaming statements run in this terminal, which is the maximum: cancel one first"
            )

    def _rows(self, stream: _Stream, table: pa.Table) -> None:
        room = Shown()
        for batch in row_batches(table, room, None, self._limits.max_bytes):
            self._send(stream.execution, "rows", stream.number, first=stream.shown.rows, rows=batch)
            stream.shown.rows += len(batch)

    def _watch(self) -> None:
        while True:
            self._wake.wait(_POLL_S)
            self._wake.clear()
            with self._lock:
                streams = list(self._running)
            for stream in streams:
                with contextlib.suppress(Exception):  # the JVM ends, and the process next
                    self._check(stream)

    def _stop_marked(self) -> None:
        with self._lock:
            streams = list(self._running)
        for stream in streams:
            with contextlib.suppress(Exception):
                self._check(stream)

    def _check(self, stream: _Stream) -> None:
        """Reports the progress of a stream, or stops it on request."""
        if stream.stopped:
            stream.query.stop()
        facts = _STREAMS.load("facts")(stream.query)
        state = {**asdict(facts), "text": stream.text, "shown": stream.shown.rows}
        if facts.active:
            self._send(stream.execution, "stream", stream.number, **state)
            return
        with self._lock:
            if stream not in self._running:
                return
            self._running.remove(stream)
        self._send(stream.execution, "stream", stream.number, **state)
        failure = None if stream.stopped else stream.query.exception()
        end: dict[str, Any] = {"state": "cancelled" if stream.stopped else "done"}
        if failure is not None:
            end = {"state": "failed", "error": failure_of(failure).to_values()}
        elapsed = round((monotonic_s() - stream.began) * 1000)
        self._send(stream.execution, "ended", stream.number, rows=stream.shown.rows, elapsed_ms=elapsed, **end)

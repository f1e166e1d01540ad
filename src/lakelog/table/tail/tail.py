"""A tail of the log: endless batches, and the position after the last returned one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.io.metrics import METER, log_errors
from lakelog.logstore.clients import close_clients
from lakelog.options.log import NORMALIZE
from lakelog.options.metrics import ROWS_TAILED
from lakelog.options.scan import CONSUMER_ID
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.log.position import LogPosition
from lakelog.table.log.scan import LogScan
from lakelog.table.read.base import ArrowRows
from lakelog.table.tail.normalizer import StreamOrigin, StreamStates, normalizes
from lakelog.table.tail.reader_needs import NamedProgress

_PARTIAL = "amid"
_STATE = "state"
_COLUMNS = "columns"


@dataclass(frozen=True)
class PartialProgress(JsonRecord):
    """The progress of a reader inside a part.

    In the log the part is the visible rows of the records up to ``end`` of a bucket. The reader has emitted the rows at
    offsets below ``first``, and ``rows`` more. In the snapshot, where ``bucket`` is -1, it is the next of its parts,
    with ``rows`` emitted.
    """

    rows: int
    bucket: int = -1
    end: int = 0
    first: int = 0


@dataclass(frozen=True)
class TailPosition:
    """The position of a tail. ``origin`` identifies the state of a tail that makes whole changes."""

    log: LogPosition
    partial: PartialProgress | None = None
    origin: StreamOrigin | None = None

    def to_text(self, scan: LogScan) -> str:
        """JSON, in the form of a stream's offsets; for ``scan`` or an equivalent one."""
        out = scan.position_json(self.log)
        if self.partial is not None:
            out[_PARTIAL] = self.partial.to_values()
        if self.origin is not None:
            out |= {_STATE: self.origin.to_values(), _COLUMNS: _columns(scan)}
        return orjson.dumps(out).decode()

    @staticmethod
    def from_text(text: str, scan: LogScan) -> TailPosition:
        """The reverse of ``to_text``.

        Raises InvalidRequest for a text that is not a position, a position in another log, or of a read that this one
        cannot resume: with another consistency, whole changes or not, whole changes of other columns.
        """
        try:
            value = orjson.loads(text)
            log, partial, origin = scan.position_of(value), value.get(_PARTIAL), value.get(_STATE)
            if normalizes(scan.table) != (origin is not None) or (origin and value[_COLUMNS] != _columns(scan)):
                raise _other_changes(scan, value)
            return TailPosition(
                log,
                None if partial is None else PartialProgress.from_values(partial),
                None if origin is None else StreamOrigin.from_values(origin),
            )
        except InvalidRequest:
            raise
        except (Corrupt, ValueError, KeyError, TypeError, AttributeError) as why:
            raise InvalidRequest(f"'{text[:80]}' is not a tail position: {why}") from why


def _columns(scan: LogScan) -> list[str] | None:
    """The explicit columns; those of ``None`` may change with the table."""
    return None if scan.columns is None else list(scan.columns)


def _other_changes(scan: LogScan, value: Mapping[str, Any]) -> InvalidRequest:
    had = f"'true' and columns {value.get(_COLUMNS) or 'of the table'}" if _STATE in value else "'false'"
    return InvalidRequest(
        f"the position in table {scan.table.name} was created with '{NORMALIZE.key}'={had}: keep this value, or "
        "restart without the position"
    )


Step = tuple[pa.RecordBatch | None, TailPosition]
"""A step of a tail: the next batch, or None without rows, and the position after it."""


@dataclass
class ResumeRequest:
    """A tail's record of position requests.

    ``offsets`` are those of the last requested position, None before the first request. ``save`` saves the state of a
    tail that has ended, for the first request after that. ``states`` are those of a tail that makes whole changes.
    """

    offsets: Mapping[int, int] | None = None
    save: Callable[[], None] | None = None
    states: StreamStates | None = None


class Tail(ArrowRows, Iterator[pa.RecordBatch]):
    """The changes of a log as Arrow batches, as they arrive. Made by ``Table.tail``; for one thread.

    ``position`` may be read from other threads. A tail that ends (``stop``) is also an Arrow stream of its rows, which
    polars, DuckDB and pyarrow accept directly.
    """

    def __init__(
        self, scan: LogScan, start: TailPosition, steps: Generator[Step], asked: ResumeRequest, ends: bool = False
    ) -> None:
        self._scan, self._steps, self._asked, self._ends = scan, steps, asked, ends
        self.reached = start
        name = scan.table.options.get_typed(CONSUMER_ID)
        self._progress = None if name is None else NamedProgress(scan.table, name, start.log)
        self._keep()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return self._scan.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches up to ``stop`` as an Arrow reader. Raises InvalidRequest for a tail without ``stop``."""
        if not self._ends:
            raise InvalidRequest(
                f"this tail of table {self._scan.table.name} never ends, so its rows are not one table: "
                "pass stop='latest' to tail(), or iterate over its batches"
            )
        return pa.RecordBatchReader.from_batches(self.schema, self)

    def __repr__(self) -> str:
        return f"Tail({self._scan.table.name}; {'ends' if self._ends else 'follows without end'})"

    def __iter__(self) -> Tail:
        return self

    def __next__(self) -> pa.RecordBatch:
        while (batch := self.step()) is None:
            pass
        return batch

    def step(self) -> pa.RecordBatch | None:
        """The next batch; None if records without rows have passed, or if the log has no more records now.

        In the last case ``reached`` does not change, and the next step waits for a record, at most half a second.
        Raises StopIteration at the end. With a ``consumer-id`` the table stores the position before the step: whoever
        asks for the next batch has processed the last one.
        """
        table = self._scan.table.name
        self._keep()
        with log_errors(table, "read"), self._scan.table.explained():
            try:
                batch, self.reached = next(self._steps)
            except StopIteration:
                self._keep(is_last=True)
                raise
        if batch is not None:
            METER.add(ROWS_TAILED, batch.num_rows, table=table)
        return batch

    @property
    def position(self) -> str:
        """The end of the returned batches, as text; ``Table.tail`` resumes from there.

        It does not change until the next batch, or until records without rows have passed. A tail that makes whole
        changes (``log.consumer.normalize``) starts to save its state in the table's directory on the first request.
        """
        return self.text_of(self.reached)

    def _keep(self, is_last: bool = False) -> None:
        if self._progress is not None:
            self._progress.keep(self.reached.log, self.needs, is_last)

    @property
    def needs(self) -> Mapping[int, int]:
        """Bucket → the first offset that a tail from the current position reads; earlier ones to build its state."""
        saved = {} if self._asked.states is None else self._asked.states.saved
        return {bucket: min(offset, saved.get(bucket, offset)) for bucket, offset in self.reached.log.offsets.items()}

    def text_of(self, reached: TailPosition) -> str:
        """A position of this tail (``reached``, current or earlier) as text."""
        self._asked.offsets = reached.log.offsets
        if self._asked.save is not None:
            self._asked.save()
            self._asked.save = None
        return reached.to_text(self._scan)

    def close(self) -> None:
        """Ends the tail, and deletes its local files; the position stays."""
        self._steps.close()
        self._asked.save = None


class AsyncTail(AsyncIterator[pa.RecordBatch]):
    """A ``Tail`` for ``async for``. Made by ``Table.tail_async``; its thread ends with the loop over it."""

    def __init__(self, tail: Tail, stop: threading.Event) -> None:
        self._tail, self._reached = tail, tail.reached
        self._batches = _awaited(tail, stop)

    async def __anext__(self) -> pa.RecordBatch:
        batch, self._reached = await anext(self._batches)
        if batch is None:
            raise StopAsyncIteration
        return batch

    @property
    def position(self) -> str:
        """The end of the returned batches, as ``Tail.position``."""
        return self._tail.text_of(self._reached)

    async def aclose(self) -> None:
        """Ends the tail; the position stays."""
        await self._batches.aclose()


async def _awaited(tail: Tail, stop: threading.Event) -> AsyncGenerator[tuple[pa.RecordBatch | None, TailPosition]]:
    """The batches as they arrive, each with the position after it; None after the last.

    The event loop is not blocked. ``stop`` is set when the consumer stops (its loop has ended, or its task was
    cancelled); ``tail`` must then end by itself. Raises the errors of ``tail``.
    """
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "lakelog-tail")

    def step() -> tuple[pa.RecordBatch | None, TailPosition]:
        return next(tail, None), tail.reached

    try:
        while (found := await loop.run_in_executor(thread, step))[0] is not None:
            yield found
        yield found
    finally:
        stop.set()
        thread.submit(close_clients)
        thread.shutdown(wait=False)

"""A tail of a log as server-sent events, limited to the rows that a browser can draw."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Final

import orjson
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.lake import Table
from lakelog.service.dashboard.previews.grid import COLUMNS, grid_of

_LOG: Final = logging.getLogger("lakelog.dashboard")
_EVERY_S: Final = 0.2
_ROWS: Final = 50
_QUIET_S: Final = 15.0
_BEHIND: Final = 50
"""Maximum number of events that wait for a follower, about 10 s at the highest rate."""


async def tail_events(table: Table) -> AsyncGenerator[bytes]:
    """Events ``rows``: the newest rows of the last 200 ms, their total number, and their columns.

    A comment every 15 s keeps the connection alive. If the log fails, an event ``trouble`` is the last one.
    """
    loop = asyncio.get_running_loop()
    tail = table.tail_async("latest")
    coming = asyncio.ensure_future(anext(tail))
    try:
        yield b": connected\n\n"
        while True:
            done, _ = await asyncio.wait({coming}, timeout=_QUIET_S)
            if not done:
                yield b": nothing new\n\n"
                continue
            newest, until = _Newest(coming.result()), loop.time() + _EVERY_S
            coming = asyncio.ensure_future(anext(tail))
            while (left := until - loop.time()) > 0 and (await asyncio.wait({coming}, timeout=left))[0]:
                newest.add(coming.result())
                coming = asyncio.ensure_future(anext(tail))
            yield newest.event()
    except LakelogError as failure:
        yield event("trouble", {"why": str(failure)})
    except StopAsyncIteration:
        yield event("trouble", {"why": "the log has ended"})
    finally:
        if not coming.cancel():  # a cancelled wait ends the tail
            await tail.aclose()


def event(kind: str, data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data, default=str) + b"\n\n"


class _Newest:
    """The newest rows of some batches, and the number of all their rows."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._rows, self._count = pa.Table.from_batches([_end(batch)]), batch.num_rows

    def add(self, batch: pa.RecordBatch) -> None:
        self._count += batch.num_rows
        rows = pa.concat_tables([self._rows, pa.Table.from_batches([_end(batch)])])
        self._rows = rows.slice(max(0, rows.num_rows - _ROWS))

    def event(self) -> bytes:
        grid = grid_of([self._rows], _ROWS)
        return event("rows", {"count": self._count, "columns": grid.columns, "rows": grid.rows})


def _end(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The last rows of a batch, with their first columns and the row kind as the last column."""
    names = batch.schema.names
    shown = names if len(names) <= COLUMNS else [*names[: COLUMNS - 1], names[-1]]
    return batch.slice(max(0, batch.num_rows - _ROWS)).select(shown)


_Queue = asyncio.Queue[bytes | None]


class SharedTails:
    """Starts a tail with its first follower and ends it with its last one. For one event loop."""

    def __init__(self, tail: Callable[[Table], AsyncGenerator[bytes]] = tail_events) -> None:
        self._tail = tail
        self._open: dict[Hashable, _Shared] = {}

    async def events(self, table: Table) -> AsyncGenerator[bytes]:
        """The events of ``tail_events`` from now on; a follower that reads them too slowly gets ``trouble``."""
        key = (table.name, table.log, table.definition.id)  # another log or schema is another tail
        shared = self._open.get(key)
        if shared is None or shared.is_over:
            shared = self._open[key] = _Shared(self._tail(table))
        queue = shared.join()
        try:
            while (one := await queue.get()) is not None:
                yield one
        finally:
            if shared.leave(queue) and self._open.get(key) is shared:
                del self._open[key]
                await shared.end()


class _Shared:
    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        self._queues: set[_Queue] = set()
        self._first: bytes | None = None
        self._running = asyncio.ensure_future(self._run(events))

    @property
    def is_over(self) -> bool:
        return self._running.done()

    def join(self) -> _Queue:
        queue: _Queue = asyncio.Queue()
        if self._first is not None:
            queue.put_nowait(self._first)
        self._queues.add(queue)
        return queue

    def leave(self, queue: _Queue) -> bool:
        """True if the tail has no follower left."""
        self._queues.discard(queue)
        return not self._queues

    async def end(self) -> None:
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _run(self, events: AsyncGenerator[bytes]) -> None:
        try:
            async for one in events:
                self._first = self._first or one  # the tail has begun
                for queue in list(self._queues):
                    self._send(queue, one)
        finally:
            for queue in self._queues:
                queue.put_nowait(None)
            await events.aclose()

    def _send(self, queue: _Queue, one: bytes) -> None:
        if queue.qsize() < _BEHIND:
            queue.put_nowait(one)
            return
        self._queues.discard(queue)
        queue.put_nowait(event("trouble", {"why": "this connection is too slow for the log: reload the page"}))
        queue.put_nowait(None)

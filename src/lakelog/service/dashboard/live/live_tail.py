"""Tails that several followers share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Final

from lakelog.lake import Table
from lakelog.service.dashboard.previews.tail import event

_BEHIND: Final = 50
"""Maximum number of events that wait for a follower, about 10 s at the highest rate."""

_Queue = asyncio.Queue[bytes | None]


class SharedTails:
    """Starts a tail with its first follower and ends it with its last one. For one event loop."""

    def __init__(self, tail: Callable[[Table], AsyncGenerator[bytes]]) -> None:
        self._tail = tail
        self._open: dict[Hashable, _Shared] = {}

    async def events(self, table: Table) -> AsyncGenerator[bytes]:
        """The events of the tail from now on; a follower that reads them too slowly gets ``trouble``."""
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

"""A tail of the log for ``async`` code; a dedicated thread waits for its batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lakelog.logstore.clients import close_clients
from lakelog.table.tail.tail import Tail, TailPosition


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

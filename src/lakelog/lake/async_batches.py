"""Batches of an endless iterator for code that is ``async``: a thread of their own waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lakelog.logstore.clients import close_clients


async def awaited(batches: Iterator[pa.RecordBatch], stop: threading.Event) -> AsyncIterator[pa.RecordBatch]:
    """The batches, each as soon as it is there; the event loop goes on meanwhile.

    ``stop`` is set when nobody asks any more (the loop over it has ended, or its task was cancelled): ``batches`` has
    to end then by itself. What ``batches`` raises is raised here.
    """
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "lakelog-tail")
    try:
        while (batch := await loop.run_in_executor(thread, next, batches, None)) is not None:
            yield batch
    finally:
        stop.set()
        thread.submit(close_clients)
        thread.shutdown(wait=False)

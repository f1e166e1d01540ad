"""A tail of a log as server-sent events: what a browser can draw, not every row of a flood."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.lake import Table
from lakelog.service.dashboard.views.table import grid_of

_LOG: Final = logging.getLogger("lakelog.dashboard")
_EVERY_S: Final = 0.2
_ROWS: Final = 50
_QUIET_S: Final = 15.0


async def tail_events(table: Table) -> AsyncIterator[bytes]:
    """Events ``rows``: the newest rows of the last fifth of a second, how many there were, and their columns.

    A comment every 15 s keeps the connection alive; an event ``trouble`` is the last one when the log fails.
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
            batches, until = [coming.result()], loop.time() + _EVERY_S
            coming = asyncio.ensure_future(anext(tail))
            while (left := until - loop.time()) > 0 and (await asyncio.wait({coming}, timeout=left))[0]:
                batches.append(coming.result())
                coming = asyncio.ensure_future(anext(tail))
            yield _rows_event(batches)
    except LakelogError as failure:
        yield event("trouble", {"why": str(failure)})
    except StopAsyncIteration:
        yield event("trouble", {"why": "the log has ended"})
    finally:
        if not coming.cancel():  # a wait that is cancelled ends the tail by itself
            await tail.aclose()


def event(kind: str, data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data, default=str) + b"\n\n"


def _rows_event(batches: list[pa.RecordBatch]) -> bytes:
    newest = pa.Table.from_batches(batches)
    shown = newest.slice(max(0, newest.num_rows - _ROWS))
    grid = grid_of(iter([shown]), _ROWS)
    return event("rows", {"count": newest.num_rows, "columns": grid.columns, "rows": grid.rows})

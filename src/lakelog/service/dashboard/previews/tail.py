"""A tail of a log as server-sent events, limited to the rows that a browser can draw. Runs in its own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import orjson
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.lake import Table
from lakelog.service.dashboard.previews.grid import COLUMNS, grid_of

_EVERY_S: Final = 0.2
_ROWS: Final = 50
_QUIET_S: Final = 15.0


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

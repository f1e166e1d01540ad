"""A tail as server-sent events, without a server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from lakelog.service.dashboard.live.live_tail import tail_events
from log_tables import make


def test_a_client_that_goes_while_nothing_comes_ends_the_tail(tmp_path: Path) -> None:
    async def program() -> None:
        events = tail_events(make(tmp_path))
        assert await anext(events) == b": connected\n\n"
        while not (waiting := [t for t in threading.enumerate() if t.name.startswith("lakelog-tail")]):
            await asyncio.sleep(0)
        await events.aclose()
        await asyncio.to_thread(waiting[0].join, 5)
        assert not waiting[0].is_alive()

    asyncio.run(program())

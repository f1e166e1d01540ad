"""A tail as server-sent events, without a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lakelog.errors import InvalidRequest
from lakelog.service.dashboard.live.streams import Streams
from lakelog.service.dashboard.previews.tail import tail_events
from lakelog.service.dashboard.security.identity.identity import Identity
from lakelog.service.dashboard.security.login.sessions import Sessions
from lakelog.sql.runtime.statement import Privilege
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


def test_streams_of_a_user_are_limited_over_all_sessions() -> None:
    async def one() -> AsyncGenerator[bytes]:
        yield b": connected\n\n"

    async def program() -> None:
        sessions = Sessions()
        streams = Streams(sessions.is_alive)
        rita = [Identity("rita", Privilege.READ, sessions.begin("rita", Privilege.READ)[1]) for _ in range(9)]
        opened = [streams.limited(identity, one()) for identity in rita[:8] for _ in range(16)]
        with pytest.raises(InvalidRequest, match="user 'rita' already follow 128"):
            streams.limited(rita[8], one())
        wanda = Identity("wanda", Privilege.READ, sessions.begin("wanda", Privilege.READ)[1])
        streams.limited(wanda, one())
        async for _ in opened[0]:
            pass
        streams.limited(rita[8], one())

    asyncio.run(program())

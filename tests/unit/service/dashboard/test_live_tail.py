"""A tail as server-sent events, without a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.options.names import visible
from lakelog.service.access.identity import Identity
from lakelog.service.access.sessions import Sessions
from lakelog.service.dashboard.live.streams import Streams
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.previews.tail import tail_events
from lakelog.service.dashboard.render import _environment
from lakelog.sql.runtime.statement import Privilege
from log_tables import log_of, make, rows


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


def test_a_tail_reads_in_a_process_that_ends_with_its_follower_or_at_a_bad_record(tmp_path: Path) -> None:
    async def program() -> list[bytes]:
        table = make(tmp_path)
        log = log_of(table)
        previews = Previews({"warehouse": str(tmp_path / "warehouse")})
        try:
            events = previews.tail("db.t")
            heard = [await anext(events)]
            table.write(rows(1))
            heard.append(await anext(events))
            assert not [t for t in threading.enumerate() if t.name.startswith("lakelog-tail")]
            value = pa.array([b"no message"], pa.large_binary())
            appender_for(log).append(0, Records(pa.nulls(1, pa.large_binary()), value, UNOWNED_HEADER))
            heard += [one async for one in events]
        finally:
            previews.close()
        return heard

    connected, row, trouble = asyncio.run(program())
    assert connected == b": connected\n\n"
    assert row.startswith(b"event: rows")
    assert trouble.startswith(b"event: trouble") and b"offset" in trouble


@pytest.mark.parametrize("text", ["\u202egnp.exe", "a\x1b[31m", "\u2066x", "\ufeff"])
def test_a_page_shows_characters_that_would_change_the_order_of_others(text: str) -> None:
    shown = _environment().from_string("<td>{{ value }}</td>").render(value=text)
    assert visible(text) in shown and text not in shown
    assert _environment().from_string("{{ value }}").render(value="<b>\n") == "&lt;b&gt;\n"

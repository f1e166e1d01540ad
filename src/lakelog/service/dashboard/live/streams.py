"""Open event streams: their limit per session, and their end with the session."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.service.dashboard.security.identity.identity import Identity

_MOST: Final = 16
_LOOK_S: Final = 2.0


class Streams:
    """Counts the streams of each session. ``is_alive`` returns whether the session of a key still exists.

    For one event loop.
    """

    def __init__(self, is_alive: Callable[[str], bool], most: int = _MOST) -> None:
        self._is_alive, self._most = is_alive, most
        self._open: Counter[str] = Counter()

    def limited(self, identity: Identity, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        """The events until the session ends. Raises InvalidRequest if the session has reached its limit of streams."""
        key = identity.session.key if identity.session else f"program {identity.user}"
        if self._open[key] >= self._most:
            raise InvalidRequest(
                f"this session already follows {self._most} logs or statements: close one of their pages"
            )
        self._open[key] += 1
        return self._events(key, identity.session is not None, events)

    async def _events(self, key: str, has_session: bool, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        coming: asyncio.Task[bytes] | None = None
        try:
            while not has_session or self._is_alive(key):
                coming = coming or asyncio.ensure_future(anext(events))
                if (await asyncio.wait({coming}, timeout=_LOOK_S))[0]:
                    try:
                        event = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = None
                    yield event
        finally:
            self._open[key] -= 1
            if coming is not None:
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await coming
            await events.aclose()

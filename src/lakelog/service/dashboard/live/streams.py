"""Open event streams: their limits per session and per user, and their end with the session."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.service.access.identity import Identity

_MOST: Final = 16
_MOST_OF_USER: Final = 128
"""Maximum number of streams of all sessions of a user, of the 2,000 connections that the server accepts."""
_EVERY_S: Final = 2.0


class Streams:
    """Counts the streams of each session and user. ``is_alive`` returns whether the session of a key still exists.

    For one event loop.
    """

    def __init__(self, is_alive: Callable[[str], bool], most: int = _MOST, most_of_user: int = _MOST_OF_USER) -> None:
        self._is_alive, self._most, self._most_of_user = is_alive, most, most_of_user
        self._open: Counter[str] = Counter()

    def limited(self, identity: Identity, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        """The events until the session ends. Raises InvalidRequest at the limit of the session or the user.

        A user who logs in again and again would otherwise take all connections.
        """
        key = identity.session.key if identity.session else f"program {identity.user}"
        if self._open[key] >= self._most:
            raise InvalidRequest(
                f"this session already follows {self._most} logs or statements: close one of their pages"
            )
        user = f"user {identity.user}"
        if self._open[user] >= self._most_of_user:
            raise InvalidRequest(
                f"the sessions of user '{identity.user}' already follow {self._most_of_user} logs or statements: close "
                "pages, or end sessions"
            )
        self._open.update((key, user))
        return self._events(key, user, identity.session is not None, events)

    async def _events(
        self, key: str, user: str, has_session: bool, events: AsyncGenerator[bytes]
    ) -> AsyncGenerator[bytes]:
        coming: asyncio.Task[bytes] | None = None
        try:
            while not has_session or self._is_alive(key):
                coming = coming or asyncio.ensure_future(anext(events))
                if (await asyncio.wait({coming}, timeout=_EVERY_S))[0]:
                    try:
                        event = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = None
                    yield event
        finally:
            self._open.subtract((key, user))
            if coming is not None:
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await coming
            await events.aclose()

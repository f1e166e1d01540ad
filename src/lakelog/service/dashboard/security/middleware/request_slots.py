"""Slots of parallel requests, assigned to clients in turn."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Final

_WAIT_S: Final = 5.0
_A_ROUND: Final = 12
"""Maximum number of waiting requests that an iteration of the event loop starts: some 20 ms of work."""


class RequestSlots:
    """At most ``count`` slots, at most ``each`` of them for one client; ``waiting`` requests may wait.

    Clients get the next slot in turn: many requests of one client delay another by one slot, not by all of them. If
    the queue is full, the newest request of the client with the most requests is refused. For one event loop.
    """

    def __init__(self, count: int, each: int, waiting: int) -> None:
        self._free, self._each, self._most_waiting = count, each, waiting
        self._used: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[bool]]] = {}
        self._waits = 0
        self._released: list[str] = []
        self._has_round = False

    async def acquire(self, who: str) -> bool:
        """Waits for a slot; False if none is free in time, or if too many requests wait."""
        if self._free and self._used[who] < self._each and who not in self._waiting:
            self._free -= 1
            self._used[who] += 1
            return True
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._waits += 1
        if self._waits > self._most_waiting:
            self._refuse_one()
        overdue = loop.call_later(_WAIT_S, _set, turn, False)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.release(who)
            raise
        finally:
            overdue.cancel()
            self._forget(who, turn)

    def release(self, who: str) -> None:
        """Frees a slot in the event loop's next iteration, for the client whose turn it is.

        An iteration answers few of the waiting requests, however many are ready and slots are free. Other work of the
        loop, such as a page that returns from a thread, waits for these few only.
        """
        self._released.append(who)
        self._schedule_round()

    def _schedule_round(self) -> None:
        if not self._has_round:
            self._has_round = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._has_round = False
        self._free += len(self._released)
        self._used -= Counter(self._released)
        self._released.clear()
        for _ in range(_A_ROUND):
            next_ = self._next() if self._free else None
            if next_ is None:
                return
            self._grant_slot(next_)
        self._schedule_round()

    def _next(self) -> str | None:
        return next((who for who in self._waiting if self._used[who] < self._each), None)

    def _grant_slot(self, who: str) -> None:
        turns = self._waiting.pop(who)
        turn = turns.popleft()
        self._waits -= 1
        if turns:
            self._waiting[who] = turns  # after all others
        if not turn.done():  # otherwise its time is over, and its request has not noticed yet
            self._free -= 1
            self._used[who] += 1
            _set(turn, True)

    def _refuse_one(self) -> None:
        who, turns = max(self._waiting.items(), key=lambda one: len(one[1]))
        turn = turns[-1]
        self._forget(who, turn)
        _set(turn, False)

    def _forget(self, who: str, turn: asyncio.Future[bool]) -> None:
        turns = self._waiting.get(who)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        self._waits -= 1
        if not turns:
            del self._waiting[who]


def _set(turn: asyncio.Future[bool], is_taken: bool) -> None:
    if not turn.done():
        turn.set_result(is_taken)

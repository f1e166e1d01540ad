"""Many who ask at a time: each in turn, the same thing computed once, one reader for all who follow a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lakelog.lake import Table
from lakelog.service.access.identity import Identity
from lakelog.service.access.sessions import Sessions
from lakelog.service.dashboard.answers import Answers
from lakelog.service.dashboard.live.live_tail import SharedTails
from lakelog.service.dashboard.security.middleware.request_slots import RequestSlots
from lakelog.sql.runtime.statement import Privilege
from log_tables import make

SESSIONS = Sessions()


def run(program: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(program(), 30)

    asyncio.run(limited())


def test_a_single_request_gets_the_next_slot_despite_a_flood_of_another_client() -> None:
    async def program() -> None:
        slots, order = RequestSlots(2, 2, 100), []

        async def ask(who: str) -> None:
            assert await slots.acquire(who)
            order.append(who)
            await asyncio.sleep(0)
            slots.release(who)

        await asyncio.gather(*(ask("flood") for _ in range(40)), ask("user"))
        assert order.index("user") <= 3

    run(program)


def test_one_who_asks_has_no_more_places_than_may_be() -> None:
    async def program() -> None:
        slots = RequestSlots(4, 2, 100)
        assert await slots.acquire("flood") and await slots.acquire("flood")
        third = asyncio.ensure_future(slots.acquire("flood"))
        assert await slots.acquire("user")
        assert not third.done()
        slots.release("flood")
        assert await third

    run(program)


def test_the_flood_is_sent_away_when_all_that_may_wait_do() -> None:
    async def program() -> None:
        slots = RequestSlots(1, 1, 3)
        assert await slots.acquire("flood")
        waiting = [asyncio.ensure_future(slots.acquire("flood")) for _ in range(3)]
        await asyncio.sleep(0)
        user = asyncio.ensure_future(slots.acquire("user"))
        assert await waiting[2] is False
        waiting[0].cancel()  # its client has left
        await asyncio.wait({waiting[0]})
        slots.release("flood")
        done, _ = await asyncio.wait({user, waiting[1]}, return_when=asyncio.FIRST_COMPLETED)
        slots.release("user" if user in done else "flood")
        assert await user and await waiting[1]

    run(program)


@dataclass
class Counted:
    """An application that counts, and answers when it is let go."""

    status: int = 200
    count: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.count += 1
        number = self.count
        await self.go.wait()
        if self.fails and number == 1:
            raise ValueError("it failed")
        await PlainTextResponse(f"{number}", self.status)(scope, receive, send)


@dataclass
class Asking:
    """Requests of some users to Answers in front of an application."""

    app: Counted
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.answers = Answers(self.app)

    async def ask(self, who: Identity, path: str, method: str = "GET", *headers: tuple[bytes, bytes]) -> str:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            if "headers" in message:
                message["headers"].append((b"x", b"y"))  # as safe headers do
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        await self.answers({**scope, "state": {"identity": who}}, None, send)  # type: ignore[arg-type]
        assert [name for name, _ in sent[0]["headers"]].count(b"x") == 1
        return bytes(sent[1]["body"]).decode()


def person(name: str, role: Privilege = Privilege.READ) -> Identity:
    return Identity(name, role, SESSIONS.begin(name, role)[1])


def test_what_many_ask_for_is_computed_once_for_each_role() -> None:
    async def program() -> None:
        asking, path = Asking(Counted()), "/api/v1/tables"
        all_ = [asyncio.ensure_future(asking.ask(person(f"reader{n}"), path)) for n in range(50)]
        all_.append(asyncio.ensure_future(asking.ask(person("ada", Privilege.ADMIN), path)))
        await asyncio.sleep(0)
        asking.app.go.set()
        assert await asyncio.gather(*all_) == ["1"] * 50 + ["2"]
        assert await asking.ask(person("late"), path) == "1"  # it is kept for a moment

    run(program)


def test_a_page_names_its_user_and_is_not_shared_with_another_but_its_parts_are() -> None:
    async def program() -> None:
        asking, one, other = Asking(Counted()), person("one"), person("other")
        asking.app.go.set()
        assert [await asking.ask(who, "/") for who in (one, other, one)] == ["1", "2", "1"]
        part = (b"hx-request", b"true")
        assert [await asking.ask(who, "/", "GET", part) for who in (one, other)] == ["3", "3"]

    run(program)


def test_a_change_is_seen_at_once() -> None:
    async def program() -> None:
        asking, who = Asking(Counted()), person("one")
        begun = asyncio.ensure_future(asking.ask(who, "/log"))
        await asyncio.sleep(0)
        changed = asyncio.ensure_future(asking.ask(who, "/api/v1/actions", "POST"))
        await asyncio.sleep(0)
        asking.app.go.set()
        assert await begun == "1" and await changed == "2"
        assert await asking.ask(who, "/log") == "3"

    run(program)


def test_what_is_a_users_own_or_went_wrong_is_not_kept() -> None:
    async def program() -> None:
        who = person("one")
        for path in ("/settings", "/terminal", "/login", "/logout", "/api/v1/tables/d.t/tail", "/api/v1/terminal"):
            asking = Asking(Counted())
            asking.app.go.set()
            assert [await asking.ask(who, path) for _ in range(2)] == ["1", "2"], path
        asking = Asking(Counted(status=503))
        asking.app.go.set()
        assert [await asking.ask(who, "/") for _ in range(2)] == ["1", "2"]
        asking = Asking(Counted(fails=True))
        first, second = (asyncio.ensure_future(asking.ask(who, "/")) for _ in range(2))
        await asyncio.sleep(0)
        asking.app.go.set()
        assert await second == "2"
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], ValueError)

    run(program)


class Tails:
    """Tails that are given events by hand."""

    def __init__(self) -> None:
        self.events: list[asyncio.Queue[bytes]] = []
        self.ended = 0

    async def tail(self, table: Table) -> AsyncGenerator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.events.append(queue)
        try:
            yield b"begun"
            while True:
                yield await queue.get()
        finally:
            self.ended += 1


def test_many_who_follow_a_log_share_one_reader_that_ends_with_the_last(tmp_path: Path) -> None:
    async def program() -> None:
        tails, table = Tails(), make(tmp_path)
        shared = SharedTails(tails.tail)
        followers = [shared.events(table) for _ in range(60)]
        assert {await anext(one) for one in followers} == {b"begun"}
        assert len(tails.events) == 1
        tails.events[0].put_nowait(b"row")
        assert {await anext(one) for one in followers} == {b"row"}
        for one in followers:
            assert tails.ended == 0
            await one.aclose()
        assert tails.ended == 1
        again = shared.events(table)
        assert await anext(again) == b"begun" and len(tails.events) == 2
        await again.aclose()

    run(program)


def test_a_follower_that_is_too_slow_keeps_no_other_waiting(tmp_path: Path) -> None:
    async def program() -> None:
        tails, table = Tails(), make(tmp_path)
        shared = SharedTails(tails.tail)
        quick, slow = shared.events(table), shared.events(table)
        assert await anext(quick) == await anext(slow) == b"begun"
        for number in range(80):
            tails.events[0].put_nowait(b"%d" % number)
            assert await anext(quick) == b"%d" % number
        taken = [one async for one in slow]
        assert len(taken) == 51 and b"trouble" in taken[-1]
        await quick.aclose()

    run(program)

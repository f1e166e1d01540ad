"""A tail in a program that is ``async``, and one that an event ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lakelog.errors import InvalidRequest
from lakelog.logstore import clients
from lakelog.table.tail import tail as async_tail
from log_tables import make, rows


def test_batches_are_awaited_while_other_tasks_run(tmp_path) -> None:
    table = make(tmp_path)

    async def program() -> list[int]:
        seen: list[int] = []
        reader = table.tail_async("latest", columns=["id"])
        with table.writer() as writer:
            writer.write(rows(1, 2))
            writer.flush()
            async for batch in reader:
                seen += batch["id"].to_pylist()
                if sorted(seen) == [1, 2]:
                    writer.write(rows(3))  # by this task, while the reader waits
                    writer.flush()
                elif len(seen) == 3:
                    break
        await reader.aclose()
        return seen

    assert sorted(asyncio.run(program())) == [1, 2, 3]
    assert [b["id"].to_pylist() for b in asyncio.run(all_of(table.tail_async("earliest", stop="latest")))]


async def all_of(batches) -> list:
    return [batch async for batch in batches]


def test_a_cancelled_task_ends_its_thread(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    closed: list[int | None] = []

    def close_clients() -> None:
        closed.append(threading.get_ident())
        clients.close_clients()

    monkeypatch.setattr(async_tail, "close_clients", close_clients)

    async def program() -> None:
        task = asyncio.create_task(all_of(table.tail_async("latest")))
        while not (waiting := [t for t in threading.enumerate() if t.name.startswith("lakelog-tail")]):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waiting[0].join(120)
        assert not waiting[0].is_alive()
        assert closed == [waiting[0].ident]

    asyncio.run(program())


def test_an_event_ends_a_tail_and_errors_are_raised(tmp_path) -> None:
    table = make(tmp_path)
    ended = threading.Event()
    ended.set()
    assert list(table.tail("earliest", stop=ended)) == []
    table.write(rows(1))
    assert list(table.tail("latest-full", stop=ended)) == []
    with pytest.raises(InvalidRequest, match="stop='soon' is not known"):
        asyncio.run(all_of(table.tail_async(stop="soon")))

"""Leases of compactors: taken, held, renewed, given back, taken over."""

from __future__ import annotations

import os
import subprocess
import sys

import orjson
import pytest

from lakelog.errors import CommitUnknown
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.table.maintenance import compaction_lease
from lakelog.table.maintenance.compaction_lease import LEASE_MS, Leases

PARTITION = b"p"


@pytest.fixture
def leases() -> Leases:
    return Leases(MemoryFileIO(new_uuid()), "memory:/t/lakelog/compact")


@pytest.fixture
def now(monkeypatch) -> list[int]:
    time = [clock.now_ms()]
    monkeypatch.setattr(clock, "now_ms", lambda: time[0])
    monkeypatch.setattr("lakelog.io.storage.memory.now_ms", lambda: time[0])
    return time


def names(leases: Leases) -> list[str]:
    return [status.name for status in leases.io.list(leases.directory)]


def test_a_bucket_has_one_compactor_until_it_gives_the_lease_back(leases, now) -> None:
    first = leases.take(PARTITION, 0)
    assert first is not None
    assert leases.take(PARTITION, 0) is None
    assert leases.take(PARTITION, 1) is not None
    assert leases.take(b"other", 0) is not None
    leases.release(first)
    assert leases.take(PARTITION, 0) is not None


def test_an_expired_lease_is_taken_over_and_its_old_owner_cannot_release_it(leases, now) -> None:
    old = leases.take(PARTITION, 0)
    now[0] += LEASE_MS - 1
    assert leases.take(PARTITION, 0) is None
    leases.renew(old)
    now[0] += LEASE_MS - 1
    assert leases.take(PARTITION, 0) is None
    now[0] += 1
    new = leases.take(PARTITION, 0)
    assert (new.turn, names(leases)) == (1, [new.name])
    leases.release(old)
    assert leases.take(PARTITION, 0) is None
    leases.renew(old)  # a late one changes nothing: the highest turn counts
    leases.release(new)
    assert leases.take(PARTITION, 0) is None
    now[0] += LEASE_MS
    assert leases.take(PARTITION, 0) is not None


def test_of_two_that_take_over_at_once_one_wins(leases, now, monkeypatch) -> None:
    leases.take(PARTITION, 0)
    now[0] += LEASE_MS
    create, rivals = leases.io.create, []

    def after_a_rival(path: str, data: bytes) -> bool:
        monkeypatch.setattr(MemoryFileIO, "create", lambda io, *given: create(*given))
        rivals.append(leases.take(PARTITION, 0))
        return create(path, data)

    monkeypatch.setattr(MemoryFileIO, "create", lambda io, *given: after_a_rival(*given))
    assert leases.take(PARTITION, 0) is None
    assert len(rivals) == 1
    assert rivals[0] is not None


def test_the_lease_of_a_process_that_has_ended_is_free_at_once(leases, now) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lease = leases.take(PARTITION, 0)
    path = f"{leases.directory}/{lease.name}"
    content = orjson.loads(leases.io.read(path))
    assert content["process"] == os.getpid()
    elsewhere = {**content, "process": ended.pid, "machine": "another"}
    leases.io.write(path, orjson.dumps(elsewhere))
    assert leases.take(PARTITION, 0) is None
    leases.io.write(path, orjson.dumps({**content, "process": ended.pid}))
    assert leases.take(PARTITION, 0) is not None


def test_what_is_no_lease_is_taken_and_what_is_forgotten_is_deleted(leases, now) -> None:
    lease = leases.take(PARTITION, 0)
    leases.io.write(f"{leases.directory}/{lease.name}", b"{")
    assert leases.take(PARTITION, 0).turn == 1
    now[0] += 2 * 24 * 3_600_000
    other = leases.take(b"other", 7)
    assert names(leases) == [other.name]


def test_a_machine_whose_clock_is_ahead_deletes_no_lease_of_another_bucket(leases, now, monkeypatch) -> None:
    held = leases.take(PARTITION, 0)
    monkeypatch.setattr(clock, "now_ms", lambda: now[0] + 31 * 24 * 3_600_000)
    other = leases.take(PARTITION, 1)
    assert names(leases) == sorted([held.name, other.name])


def test_a_lease_is_renewed_while_its_owner_works(leases, now, monkeypatch) -> None:
    monkeypatch.setattr(compaction_lease, "LEASE_MS", 3)
    lease = leases.take(PARTITION, 0)
    path = f"{leases.directory}/{lease.name}"
    first = leases.io.read(path)
    now[0] += 1
    with leases.renewing(lease):
        while leases.io.read(path) == first:
            now[0] += 1
    assert orjson.loads(leases.io.read(path))["owner"] == lease.owner


def test_a_lease_with_an_unknown_outcome_is_not_taken(leases, now, monkeypatch) -> None:
    def unknown(*given):
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(MemoryFileIO, "create", unknown)
    assert leases.take(PARTITION, 0) is None

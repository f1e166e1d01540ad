"""Leases of tasks and of writers: one promise for all of their users."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import orjson
import pytest

from lakelog.errors import CommitConflict, CommitUnknown, Unavailable
from lakelog.io import clock
from lakelog.io.lease import DURATION_MS, KEEPER, Lease, Leases
from lakelog.io.names import new_uuid
from lakelog.io.storage import memory
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.table.model.registrations import BATCH, Registrations

MONTH_MS = 31 * 24 * 3_600_000
PATIENCE_S = 60.0


class Clocks:
    """The clock of the storage, and that of this machine, which may be wrong."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_ms, self.wrong_ms, real = clock.now_ms(), 0, clock.time
        patch.setattr(memory, "now_ms", lambda: self.now_ms)
        machine = SimpleNamespace(sleep=real.sleep, monotonic=lambda: self.now_ms / 1000)
        machine.time_ns = lambda: (self.now_ms + self.wrong_ms) * 1_000_000
        patch.setattr(clock, "time", machine)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


class TaskUser:
    """A process with the lease of a task, and what others find."""

    def __init__(self) -> None:
        self.io = MemoryFileIO(new_uuid())
        self.leases = Leases(self.io, "memory:/t/lakelog/compact")

    def begin(self) -> None:
        self.lease = self.leases.take("task")
        assert self.lease is not None

    def is_alive(self) -> bool:
        return "task" in Leases(self.io, self.leases.directory).held()


class WriterUser:
    """A writer with its lease, and what others find."""

    def __init__(self) -> None:
        self.io = MemoryFileIO(new_uuid())

    def begin(self) -> None:
        registered = Registrations(self.io, "memory:/t")
        assert registered.register("w", {0: 0}, BATCH, DURATION_MS)
        self.lease = Lease.read(self.io, registered.lease_path("w"))

    def is_alive(self) -> bool:
        return Registrations(self.io, "memory:/t").all()["w"].is_alive


User = TaskUser | WriterUser


@pytest.fixture(params=[TaskUser, WriterUser])
def user(request: pytest.FixtureRequest, clocks: Clocks) -> User:
    found = request.param()
    found.begin()
    return found


@pytest.mark.parametrize("owner_ms", [-MONTH_MS, 0, MONTH_MS])
@pytest.mark.parametrize("wrong_ms", [-MONTH_MS, 0, MONTH_MS])
def test_it_lasts_while_it_is_renewed_whatever_the_clocks(
    user: User, clocks: Clocks, owner_ms: int, wrong_ms: int
) -> None:
    for _ in range(2):
        clocks.wrong_ms = owner_ms
        KEEPER.keep(user.io, user.lease)
        KEEPER.drop(user.lease.path)
        clocks.wrong_ms = wrong_ms
        clocks.now_ms += DURATION_MS - 1
        assert user.is_alive()
    clocks.now_ms += 1
    assert not user.is_alive()


def test_a_storage_that_cannot_be_written_is_read_by_the_clock_of_the_machine(user: User, clocks: Clocks, monkeypatch):
    def refused(*_: object) -> None:
        raise Unavailable("read-only")

    monkeypatch.setattr(MemoryFileIO, "write", refused)
    assert user.is_alive()
    clocks.now_ms += DURATION_MS
    assert not user.is_alive()


def test_who_is_stopped_while_it_asks_ends_no_lease(user: User, clocks: Clocks, monkeypatch) -> None:
    read = Lease.read

    def late(io: MemoryFileIO, path: str) -> Lease | None:
        clocks.now_ms += 10 * DURATION_MS
        return read(io, path)

    monkeypatch.setattr(Lease, "read", late)
    assert user.is_alive()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"until":0}', b'{"until":0,"timeout":60000}', b'{"until":"x"}'])
def test_a_torn_file_is_a_lease_that_was_given_up(user: User, content: bytes) -> None:
    user.io.write(user.lease.path, content)
    assert not user.is_alive()


def test_a_lease_of_an_earlier_version_lasts_a_minute(user: User, clocks: Clocks) -> None:
    user.io.write(user.lease.path, orjson.dumps({**user.lease.facts, "until": clocks.now_ms + 1}))
    clocks.now_ms += DURATION_MS - 1
    assert user.is_alive()
    clocks.now_ms += 1
    assert not user.is_alive()


def test_it_is_renewed_while_it_is_in_use(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    lease, renewed, write = Lease(user.lease.path, 30, user.lease.facts), threading.Semaphore(0), MemoryFileIO.write

    def told(io: MemoryFileIO, path: str, data: bytes) -> None:
        write(io, path, data)
        renewed.release()

    monkeypatch.undo()  # the clocks go on
    monkeypatch.setattr(MemoryFileIO, "write", told)
    kept = KEEPER.keep(user.io, lease)
    kept.begin_use()
    kept.used_s = 0.0  # long ago
    for _ in range(4):
        assert renewed.acquire(timeout=PATIENCE_S)
    assert kept.is_good() and not kept.is_unused()
    KEEPER.drop(lease.path)
    user.io.delete(lease.path)
    assert not kept.renew() and not kept.is_good() and not user.io.exists(lease.path)


@pytest.mark.parametrize("ours", [True, False])
def test_an_owner_that_was_delayed_asks_whether_it_still_has_it(user: User, clocks: Clocks, ours: bool) -> None:
    kept = KEEPER.keep(user.io, user.lease, lambda: ours or clocks.wrong_ms == 0)
    KEEPER._leases.clear()  # its thread was delayed, too
    clocks.now_ms += DURATION_MS - 1
    assert kept.is_good()
    clocks.wrong_ms = -MONTH_MS  # its clock is set back: the lease may be older than it says
    assert kept.is_good() == ours == (not kept.is_lost)


@pytest.fixture
def tasks(clocks: Clocks) -> TaskUser:
    return TaskUser()


def names(tasks: TaskUser) -> list[str]:
    return [file.name for file in tasks.io.list(tasks.leases.directory)]


def test_an_owner_that_was_taken_over_cannot_release_the_lease(tasks: TaskUser, clocks: Clocks) -> None:
    tasks.begin()
    old = tasks.lease
    clocks.now_ms += DURATION_MS
    tasks.begin()
    assert names(tasks) == ["task.1"]
    tasks.leases.release(old)
    tasks.io.write(old.path, old.to_bytes())  # a late renewal: the highest turn counts
    assert tasks.leases.take("task") is None
    tasks.leases.release(tasks.lease)
    assert tasks.leases.take("task") is None
    clocks.now_ms += DURATION_MS
    assert tasks.leases.take("task") is not None


def test_of_two_that_take_over_at_once_one_wins(tasks: TaskUser, clocks: Clocks, monkeypatch) -> None:
    tasks.begin()
    clocks.now_ms += DURATION_MS
    create, rivals = MemoryFileIO.create, []

    def after_a_rival(*given) -> bool:
        monkeypatch.setattr(MemoryFileIO, "create", create)
        rivals.append(tasks.leases.take("task"))
        return create(*given)

    monkeypatch.setattr(MemoryFileIO, "create", after_a_rival)
    assert tasks.leases.take("task") is None
    assert len(rivals) == 1 and rivals[0] is not None


def test_the_lease_of_a_process_that_has_ended_is_free_at_once(tasks: TaskUser) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    tasks.begin()
    content = orjson.loads(tasks.io.read(tasks.lease.path)) | {"process": ended.pid}
    tasks.io.write(tasks.lease.path, orjson.dumps(content | {"machine": "another"}))
    assert tasks.leases.take("task") is None
    tasks.io.write(tasks.lease.path, orjson.dumps(content))
    assert tasks.leases.take("task") is not None


@pytest.mark.parametrize("days", [2, 0])
def test_files_of_other_tasks_are_deleted_once_they_are_old_by_the_clock_of_the_storage(
    tasks: TaskUser, clocks: Clocks, days: int
) -> None:
    tasks.begin()
    clocks.now_ms += days * 24 * 3_600_000
    clocks.wrong_ms = MONTH_MS
    assert tasks.leases.take("other") is not None
    assert names(tasks) == (["other.0"] if days else ["other.0", "task.0"])


def test_a_lease_with_an_unknown_outcome_is_not_taken(tasks: TaskUser, monkeypatch) -> None:
    def unknown(*_: object) -> bool:
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(MemoryFileIO, "create", unknown)
    assert tasks.leases.take("task") is None


def test_a_block_holds_a_task_or_learns_that_it_does_not(tasks: TaskUser) -> None:
    with tasks.leases.holding("task") as is_ours, tasks.leases.holding("other") as is_other:
        assert is_ours and is_other and tasks.is_alive()
        with tasks.leases.holding("task") as is_second:
            assert not is_second
        with pytest.raises(CommitConflict), tasks.leases.holding("task", busy=CommitConflict("busy")):
            raise AssertionError
    assert not tasks.is_alive()

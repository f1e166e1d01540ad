"""Commits over a store whose put has no condition: with a lock none is lost, without one some are."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.errors import CommitUnknown, InvalidOption, Unavailable
from lakelog.io import file_io_for
from lakelog.io.locks import LOCKS, file
from lakelog.io.storage.delegating import CreateLock, LockedFileIO
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.options.storage import STORAGE_LOCK

RIVALS = 6
ROUNDS = 15


class CarelessIO(MemoryFileIO):
    """A store whose put replaces what is there; between the look and the put others have time."""

    def __init__(self, name: str, between: Callable[[], object] = lambda: None) -> None:
        super().__init__(name)
        self._between = between

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        self._between()
        self.write(path, data)
        return True


def test_the_option_and_the_guard_of_statements_know_every_lock() -> None:
    assert STORAGE_LOCK.choices == ("none", *LOCKS)
    assert {kind: LOCKS.load(kind).is_local for kind in LOCKS} == {"file": True, "sql": False}


@pytest.fixture(params=list(LOCKS))
def lock(request: pytest.FixtureRequest, tmp_path: Path) -> CreateLock:
    address = {"file": str(tmp_path / "locks"), "sql": f"sqlite:///{tmp_path}/locks.db"}
    return LOCKS.create(request.param, address[request.param])


def commit_in_threads(io_of: Callable[[], FileIO]) -> tuple[list[bytes], list[bytes]]:
    """Every rival appends to a chain of numbered files until it has made its share; what was claimed and what is
    there."""
    claimed: list[bytes] = []

    def rival(number: int) -> None:
        io, position = io_of(), 0
        for round_number in range(ROUNDS):
            data = f"{number}/{round_number}".encode()
            while not io.create(f"/t/snapshot-{position}", data):
                position += 1
            claimed.append(data)

    threads = [threading.Thread(target=rival, args=(n,)) for n in range(RIVALS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    io = io_of()
    return sorted(claimed), sorted(io.read(status.path) for status in io.list("/t"))


def test_with_a_lock_no_commit_is_lost(lock: CreateLock) -> None:
    name = uuid.uuid4().hex
    claimed, there = commit_in_threads(lambda: LockedFileIO(CarelessIO(name), lock))
    assert len(claimed) == RIVALS * ROUNDS
    assert there == claimed


def test_a_lock_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    for kind, address in (("file", str(tmp_path / "locks")), ("sql", f"sqlite:///{tmp_path}/locks.db")):
        holder = (
            "import os, sys; from lakelog.io.locks import LOCKS\n"
            "with LOCKS.create(sys.argv[1], sys.argv[2]).held('/t/a'): print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", holder, kind, address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            process.kill()
        entered = False
        with LOCKS.create(kind, address).held("/t/b"):
            entered = True
        assert entered


def test_a_lock_that_is_never_free_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "WAIT_S", 0.05)
    lock = LOCKS.create("file", str(tmp_path))
    with lock.held("/t/a"), pytest.raises(Unavailable, match="held the lock.*try again"), lock.held("/t/b"):
        pass


def test_a_write_that_failed_under_the_lock_is_an_unknown_commit(lock: CreateLock) -> None:
    class Broken(MemoryFileIO):
        def write(self, path: str, data: bytes) -> None:
            raise Unavailable("gone")

    with pytest.raises(CommitUnknown, match="gone"):
        LockedFileIO(Broken(uuid.uuid4().hex), lock).create("/t/a", b"1")
    with lock.held("/t/a"):
        pass


def test_an_option_gives_any_storage_a_lock_that_travels(tmp_path: Path) -> None:
    io = file_io_for(f"{tmp_path}/w", {"storage.lock": "file", "storage.lock.address": f"{tmp_path}/locks"})
    assert isinstance(io, LockedFileIO)
    assert pickle.loads(pickle.dumps(io)) == io
    with pytest.raises(InvalidOption, match=r"storage\.lock\.address"):
        file_io_for(str(tmp_path), {"storage.lock": "file"})


def test_an_error_of_opening_a_database_hides_its_password() -> None:
    secret = "postgresql+nodriver://user:hush@127.0.0.1/db"
    lock = LOCKS.create("sql", secret)
    assert "hush" not in repr(lock)
    with pytest.raises(InvalidOption, match="postgresql") as raised, lock.held("/t/a"):
        pass
    assert "hush" not in str(raised.value)
    with pytest.raises(Unavailable), LOCKS.create("sql", "sqlite:////nowhere/at/all.db").held("/t/a"):
        pass

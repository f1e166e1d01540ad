"""The clients that a process keeps: few descriptors, however many tables it has used."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.logstore import clients
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import appender_for, close_clients, drop_clients, reader_for
from lakelog.logstore.embedded.system import EmbeddedLogSystem

KEPT = 3


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LogLocation]]:
    monkeypatch.setattr(clients, "_MOST", KEPT)
    drop_clients()
    system = EmbeddedLogSystem()
    yield [system.create(LogLocation("embedded", str(tmp_path / f"{n}" / "log.sqlite"), "t", 1)) for n in range(10)]
    monkeypatch.undo()
    close_clients()
    drop_clients()


def open_logs(directory: Path) -> set[str]:
    """The logs below a directory that this process has open."""
    found = set()
    for handle in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{handle}")
        except FileNotFoundError:
            continue
        if path.startswith(str(directory)):
            found.add(Path(path).parent.name)
    return found


def test_the_clients_used_last_are_kept(logs: list[LogLocation], tmp_path: Path) -> None:
    first = reader_for(logs[0])
    for log in logs[1:]:
        assert reader_for(log).end_offsets() == appender_for(log).end_offsets() == {0: 0}
        assert reader_for(logs[0]) is first, "it is used all the time"
    assert open_logs(tmp_path) == {"0", "7", "8", "9"}


def test_a_client_in_use_stays_open(logs: list[LogLocation]) -> None:
    held = reader_for(logs[0])
    for log in logs[1:]:
        reader_for(log)
    assert held.end_offsets() == {0: 0}
    assert reader_for(logs[0]) is not held


def test_clients_end_with_their_thread(logs: list[LogLocation], tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: [reader_for(log) for log in logs[:2]])
    thread.start()
    thread.join()
    assert open_logs(tmp_path) == set()


def test_a_forked_process_opens_its_own(logs: list[LogLocation]) -> None:
    mine = reader_for(logs[0])
    process = os.fork()
    if not process:
        os._exit(0 if reader_for(logs[0]) is not mine else 1)
    assert os.waitpid(process, 0)[1] == 0
    assert reader_for(logs[0]) is mine


def test_a_forked_process_leaves_the_clients_of_the_other_threads_open(logs: list[LogLocation], tmp_path: Path) -> None:
    """Closing an SQLite connection that a fork has copied may undo what its parent writes."""
    opened, done = threading.Event(), threading.Event()

    def work() -> None:
        reader_for(logs[0])
        opened.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    opened.wait()
    process = os.fork()
    if not process:
        os._exit(0 if open_logs(tmp_path) == {"0"} else 1)
    done.set()
    thread.join()
    assert os.waitpid(process, 0)[1] == 0
    assert open_logs(tmp_path) == set()


def test_a_process_without_free_descriptors_closes_the_oldest_clients(logs: list[LogLocation]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = max(int(handle) for handle in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 8, before[1]))  # fewer than the caches would hold
    try:
        for log in logs:
            assert reader_for(log).end_offsets() == appender_for(log).end_offsets() == {0: 0}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(("limit", "most"), [(64, 4), (128, 8), (1024, 64), (resource.RLIM_INFINITY, 64)])
def test_a_thread_keeps_fewer_clients_under_a_low_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    drop_clients()
    assert clients._CLIENTS.readers.maxsize == clients._CLIENTS.appenders.maxsize == most

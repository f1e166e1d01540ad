"""One server of each kind for all processes of a run of pytest, restarted if it dies.

The first test that asks starts it; its other workers find it in a directory that they share. Whoever collects the
reports ends it. Tests are apart by names: a database, a topic, a bucket of their own.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lakelog.service.servers.server_process import ServerProcess

S = TypeVar("S", bound=ServerProcess)

_DIRECTORY: Final = "LAKELOG_TEST_SERVERS"
"""The variable that names the directory of a run: its workers inherit it."""


def run_directory() -> Path:
    """The directory in which the processes of this run find its servers."""
    if _DIRECTORY not in os.environ:
        os.environ[_DIRECTORY] = tempfile.mkdtemp(prefix="lakelog-servers-")
    return Path(os.environ[_DIRECTORY])


def jvm_starts(worker: str = os.environ.get("PYTEST_XDIST_WORKER", "main")) -> Path:
    """The directory in which each JVM leaves a file that a worker of this run has started."""
    starts = run_directory() / "jvms" / worker
    starts.mkdir(parents=True, exist_ok=True)
    return starts


class SharedServer(Generic[S]):
    """A server of this run: ``get`` starts it, or finds the one that another process has started."""

    def __init__(self, name: str, make: Callable[[Path], S], address: Callable[[S], str]) -> None:
        self._name, self._make, self._address = name, make, address
        self._server: S | None = None

    def get(self) -> S:
        """The running server."""
        with self._locked() as directory:
            card = directory / f"{self._name}.server"
            if self._server is None and card.exists():
                self._server = pickle.loads(card.read_bytes())
            if self._server is None:
                self._server = self._make(directory / self._name)
                self._start(directory)
                card.write_bytes(pickle.dumps(self._server))
            elif not self._answers():
                self._start(directory)
                with (directory / "restarts").open("a") as restarts:
                    print(self._name, file=restarts)
        return self._server

    def revive(self) -> None:
        """Starts it again if it has died: called between two tests."""
        if self._server is not None and not self._answers():
            self.get()

    def _start(self, directory: Path) -> None:
        assert self._server is not None
        process = self._server.start().process
        assert process is not None
        with (directory / "processes").open("a") as processes:
            print(process.pid, self._name, file=processes)
        self._server.process = None  # it lives as long as the run, not as long as this process
        process.returncode = 0  # so that nobody warns of it

    def _answers(self) -> bool:
        assert self._server is not None
        for wait in (1.0, 5.0, 30.0):
            port = int(self._address(self._server).rpartition(":")[2])
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=wait):
                return True
            time.sleep(wait / 10)
        return False

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        directory = run_directory()
        with (directory / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield directory


def end_servers() -> tuple[list[str], list[str]]:
    """Ends the servers of the run. Returns the names of all starts, and of those that had died before."""
    directory = run_directory()
    starts = [line.split() for line in _lines(directory / "processes")]
    for pid, _ in starts:
        with suppress(ProcessLookupError):
            os.killpg(int(pid), signal.SIGTERM)
    deadline = time.monotonic() + 120
    for pid, _ in starts:
        while _is_alive(int(pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(int(pid), signal.SIGKILL)
    restarts = _lines(directory / "restarts")
    shutil.rmtree(directory, ignore_errors=True)
    return [name for _, name in starts], restarts


def _is_alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

"""A server as a child process: start, stop, kill -9, and the end of its log when it does not come up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from lakelog.errors import Unavailable
from lakelog.io.clock import monotonic_s, sleep

QUICK_START: Final = "-XX:TieredStopAtLevel=1"
"""For a Java server beside the program that uses it: the JVM's optimising compiler would take the cores of both for the
first minutes (measured: 7.1 against 4.4 s of CPU for a start of Kafka, 66 % against 27 % of a core at 1,000 rows/s)."""


class ServerProcess(ABC):
    """One child process that keeps its data in a directory; after ``kill`` it can be started again.

    Starts with ``start`` or ``with``; its output is ``server.log`` in the directory.
    """

    NAME: ClassVar[str]
    """What an error calls it."""
    START_S: ClassVar[float] = 90.0
    """How long it may take until it answers."""
    address: str = ""
    """The address that a table gives for its log, of a log server."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Program and arguments; called at each start, with the directory as the working one."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers; asked again and again while it starts."""

    def environment(self) -> Mapping[str, str]:
        """The variables that it gets."""
        return os.environ

    def start(self) -> Self:
        """Starts the server and waits until it answers. Raises Unavailable with the end of its log."""
        with (self.directory / "server.log").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=self.environment(),
                start_new_session=True,
            )
        try:
            end = monotonic_s() + self.START_S
            while self.process.poll() is None and monotonic_s() < end:
                if self.is_ready():
                    return self
                sleep(0.05)
        except BaseException:
            self.kill()
            raise
        self.kill()
        log = (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")
        raise Unavailable(f"the {self.NAME} did not start: {log[-2000:]}")

    def stop(self) -> None:
        """Ends the server in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def kill(self) -> None:
        """kill -9, for tests of what survives."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def java_program() -> str:
    """The ``java`` of JAVA_HOME, or that of the path."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

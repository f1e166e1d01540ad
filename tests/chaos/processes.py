"""Processes that are started, inspected and killed: a job with all that it starts is one session of the kernel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.journal import START

_TESTS = Path(__file__).parents[1]

EXECUTOR = "CoarseGrainedExecutorBackend"
TASK_WORKER = "pyspark.daemon pyspark.worker"
DRIVER_JVM = "org.apache.spark.deploy.SparkSubmit"


@dataclass(frozen=True)
class Process:
    """One process of a session, with its command line."""

    pid: int
    command: str


def running() -> list[Process]:
    """All processes of this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(Process(int(entry.name), command))
    return found


def session(leader: int) -> list[Process]:
    """The processes that run now of those that a leader has started, and the leader."""
    return [process for process in running() if _leader(process.pid) == leader]


def _leader(process: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[3])
    return 0


def kill(processes: list[Process], number: signal.Signals = signal.SIGKILL) -> None:
    """kill -9, or another signal; what has ended meanwhile is left out."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def go_on(leader: int) -> None:
    """Lets a session go on that was stopped."""
    kill(session(leader), signal.SIGCONT)


def sessions(leaders: Sequence[int]) -> list[Process]:
    """The processes of several sessions."""
    return [process for leader in leaders for process in session(leader)]


def memory_mb(processes: Sequence[Process]) -> float:
    """Resident memory, MiB; pages that processes share count once."""
    total = 0
    for process in processes:
        with contextlib.suppress(OSError, ValueError):
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


class Job:
    """A Python module that is started again and again; its output is kept in a file."""

    def __init__(
        self,
        role: str,
        command: list[str],
        directory: Path,
        on: Callable[[Sequence[str], Mapping[str, str]], list[str]] = lambda command, variables: [*command],
    ) -> None:
        """``on`` makes of a command, and its variables, the one that runs it elsewhere; asked at each start."""
        self.role = role
        self._command, self._on = [sys.executable, "-m", *command], on
        self.output = directory / f"{role}.log"
        self._process: subprocess.Popen[str] | None = None
        self._replaced: list[subprocess.Popen[str]] = []
        self._told: str | None = None
        self.starts = 0
        self.killed = False
        self.failures: list[str] = []
        self.leaders: list[int] = []

    def start(self) -> None:
        """Starts it; one that was told to end is told again."""
        if self._process is not None:
            self._replaced.append(self._process)
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        self.starts += 1
        number = {START: str(self.starts)}
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._on(self._command, number),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **number},
            )
        self.killed = False
        self.leaders.append(self._process.pid)
        if self._told is not None:
            self.tell(self._told)

    def tell(self, line: str) -> None:
        """Tells it to end."""
        self._told = line
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def keep_up(self) -> bool:
        """Starts it again if it has died; whether it has done its work."""
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        if not self.killed:
            self.failures.append(self._last_output())
        self.start()
        return False

    def said(self) -> dict[str, Any]:
        """The last but one line of its output: what it found."""
        found: dict[str, Any] = json.loads(self.output.read_text(encoding="utf-8").splitlines()[-2])
        return found

    def running(self, what: str) -> list[Process]:
        """Its processes whose command line has a text."""
        assert self._process is not None
        return [p for p in session(self._process.pid) if what in p.command]

    def kill_driver(self) -> None:
        """Ends the driver, Python and JVM, at once; its executors are left to notice."""
        assert self._process is not None
        self.killed = True
        kill([Process(self._process.pid, ""), *self.running(DRIVER_JVM)])
        self._process.wait()

    def kill_all(self) -> None:
        """Ends every process of it that there is, those of its earlier starts too."""
        self.killed = True
        for leader in self.leaders:
            kill(session(leader))
        for process in (*self._replaced, self._process):
            if process is not None:
                process.wait()
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()

    def kill_newest(self) -> None:
        """Ends what was started last, but not what goes on beside it."""
        assert self._process is not None
        self.killed = True
        kill(session(self._process.pid))
        self._process.wait()

    def stop(self) -> int:
        """Stops what was started last where it is; its number, for ``go_on``."""
        assert self._process is not None
        kill(session(self._process.pid), signal.SIGSTOP)
        return self._process.pid

    def _last_output(self) -> str:
        lines = self.output.read_text(encoding="utf-8", errors="replace").splitlines()
        telling = [line for line in lines[-200:] if "Error" in line or "Exception" in line or "lakelog" in line]
        return (telling or lines or ["nothing"])[-1].strip()[:300]

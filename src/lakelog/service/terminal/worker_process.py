"""The worker of a terminal as a child process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import lakelog
from lakelog.options.registry import Registry
from lakelog.service.spark_environment import environment_of_own_spark
from lakelog.service.terminal.protocol.config import TerminalConfig
from lakelog.service.terminal.protocol.pipe import Pipe

TREES: Final[Registry[Any]] = Registry(
    "process tree", {"psutil": "lakelog.service.terminal.memory:ProcessTree"}, extras={"psutil": "terminal"}
)

_MODULE: Final = "lakelog.service.terminal.worker.main"
_OUTPUT_LINES: Final = 40
_END_S: Final = 5.0


class WorkerProcess:
    """One process with at most one Spark session. It ends with this process, because its stdin then closes.

    ``on_message`` is called with each message, and ``on_end`` once at the end, both in a separate thread. Raises
    NotInstalled without psutil, which measures its memory.
    """

    def __init__(
        self,
        config: TerminalConfig,
        on_message: Callable[[WorkerProcess, dict[str, Any]], None],
        on_end: Callable[[WorkerProcess], None],
    ) -> None:
        self._on_message, self._on_end = on_message, on_end
        tree = TREES.load("psutil")
        self.directory = tempfile.mkdtemp(prefix="lakelog-terminal-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=_environment(self.directory),
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._limit = config.limits.memory_bytes
        self._tree = tree(self.pid)
        self._last_output: deque[str] = deque(maxlen=_OUTPUT_LINES)
        self._killed = threading.Lock()
        self._pipe = Pipe(_opened(self._process.stdout), _opened(self._process.stdin))
        for name, work in (("stderr", self._drain), ("stdout", self._listen)):
            threading.Thread(target=work, name=f"terminal {self.pid} {name}", daemon=True).start()
        self.send({"op": "open", "config": config.to_values(), "directory": self.directory})

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends the worker a message; does nothing if it has ended."""
        with contextlib.suppress(OSError, ValueError):
            self._pipe.send(message)

    def memory_bytes(self) -> int:
        """The memory of the worker and its descendants."""
        taken: int = self._tree.memory_bytes(self._limit)
        return taken

    @property
    def last_output(self) -> str:
        """The end of its stderr."""
        return "\n".join(self._last_output)

    def stop(self) -> None:
        """Requests its end, and kills it after a timeout. Streams stop, and their decided epochs are sealed."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.kill()

    def kill(self) -> None:
        """Kills the worker and its descendants."""
        with self._killed:
            self._tree.kill()
            self._process.wait()
            self._pipe.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _listen(self) -> None:
        for message in self._pipe.messages():
            self._on_message(self, message)
        self.kill()
        self._on_end(self)

    def _drain(self) -> None:
        for line in _opened(self._process.stderr):
            self._last_output.append(line.decode("utf-8", "replace").rstrip()[:500])


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _environment(directory: str) -> dict[str, str]:
    """The environment of this process, with the path of this lakelog and the worker's directory for temporary files."""
    own = str(Path(lakelog.__file__).parents[1])
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        **environment_of_own_spark(),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([own, *given])),
        "TMPDIR": directory,
    }

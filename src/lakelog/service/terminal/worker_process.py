"""The worker of a terminal as a child process."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from lakelog.options.registry import Registry
from lakelog.service.child_process import Pipe, start_module
from lakelog.service.terminal.protocol.config import TerminalConfig

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
        self._process = start_module(_MODULE, stderr=subprocess.PIPE, directory=self.directory)
        self.pid = self._process.pid
        self._limit = config.limits.memory_bytes
        self._tree = tree(self.pid)
        self._last_output: deque[str] = deque(maxlen=_OUTPUT_LINES)
        self._killed = threading.Lock()
        self._pipe = Pipe.to_child(self._process)
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
        for line in self._process.stderr or ():
            self._last_output.append(line.decode("utf-8", "replace").rstrip()[:500])

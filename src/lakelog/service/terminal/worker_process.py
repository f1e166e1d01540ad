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
_TOLD_LINES: Final = 40
_END_S: Final = 5.0


class WorkerProcess:
    """One process with one Spark session at most; it ends when this one does, for then its stdin does.

    ``hear`` is called with each message, ``gone`` once when there will be no more; both in a thread of its own.
    Raises NotInstalled without psutil, which watches its memory.
    """

    def __init__(
        self,
        config: TerminalConfig,
        hear: Callable[[WorkerProcess, dict[str, Any]], None],
        gone: Callable[[WorkerProcess], None],
    ) -> None:
        self._hear, self._gone = hear, gone
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
        self._last_words: deque[str] = deque(maxlen=_TOLD_LINES)
        self._killed = threading.Lock()
        self._pipe = Pipe(_opened(self._process.stdout), _opened(self._process.stdin))
        for name, work in (("stderr", self._drain), ("stdout", self._listen)):
            threading.Thread(target=work, name=f"terminal {self.pid} {name}", daemon=True).start()
        self.send({"op": "open", "config": config.to_dict(), "directory": self.directory})

    def send(self, message: Mapping[str, Any]) -> None:
        """Tells the worker something; a worker that is gone is told nothing."""
        with contextlib.suppress(OSError, ValueError):
            self._pipe.send(message)

    def memory_bytes(self) -> int:
        """What it and all that it has started take."""
        taken: int = self._tree.memory_bytes(self._limit)
        return taken

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return "\n".join(self._last_words)

    def stop(self) -> None:
        """Lets it end in order for a while, then kills it: streams stop, what they have finished is sealed."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.kill()

    def kill(self) -> None:
        """Ends it and all that it has started, now."""
        with self._killed:
            self._tree.kill()
            self._process.wait()
            self._pipe.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _listen(self) -> None:
        for message in self._pipe.messages():
            self._hear(self, message)
        self.kill()
        self._gone(self)

    def _drain(self) -> None:
        for line in _opened(self._process.stderr):
            self._last_words.append(line.decode("utf-8", "replace").rstrip()[:500])


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _environment(directory: str) -> dict[str, str]:
    """This process's, with the same lakelog, for the worker has another directory; its temporary files go there."""
    own = str(Path(lakelog.__file__).parents[1])
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        **environment_of_own_spark(),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([own, *given])),
        "TMPDIR": directory,
    }

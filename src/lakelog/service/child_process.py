"""A child process of a service: its start, its environment, its end, and the messages between it and its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import orjson

import lakelog

_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_CONNECTS: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE")
"""Variables that PySpark sets and reads: with one of them, a session is one of Spark Connect."""


def start_module(
    module: str,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.DEVNULL,
    directory: str | None = None,
) -> subprocess.Popen[bytes]:
    """Starts ``python -m module`` with this lakelog, where Ctrl-C does not reach it.

    With a directory it works there, and has its temporary files there.
    """
    package = str(Path(lakelog.__file__).parents[1])
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    variables = {"PYTHONPATH": os.pathsep.join(dict.fromkeys([package, *paths]))}
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=directory,
        env=environment_of_own_spark() | variables | ({} if directory is None else {"TMPDIR": directory}),
        start_new_session=True,
    )


def environment_of_own_spark() -> dict[str, str]:
    """The variables of this process for a child that is its own driver.

    This process may have a session of Spark Connect, which its children would otherwise need too.
    """
    return {name: value for name, value in os.environ.items() if name not in _CONNECTS}


def stop(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Ends a process, cleanly if that is fast."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Pipe:
    """One end of the pipes between two processes: one JSON object per line.

    Lines are written atomically, from any thread.
    """

    def __init__(self, incoming: IO[bytes] | None, outgoing: IO[bytes] | None) -> None:
        assert incoming is not None and outgoing is not None
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()

    @staticmethod
    def to_child(process: subprocess.Popen[bytes]) -> Pipe:
        """The stdout and stdin of a child."""
        return Pipe(process.stdout, process.stdin)

    @staticmethod
    def to_parent() -> Pipe:
        """The stdin and stdout of this process, which its children do not inherit; its other output goes to stderr."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the foreground process
        incoming, outgoing = os.dup(0), os.dup(1)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        os.dup2(2, 1)
        return Pipe(os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb"))

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes a message. Raises OSError if the other end is closed."""
        line = orjson.dumps(message, default=str, option=_OPTIONS)
        with self._lock:
            self._outgoing.write(line)
            self._outgoing.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages until the other end is closed."""
        while True:
            try:
                line = self._incoming.readline()
            except (OSError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            yield orjson.loads(line)

    def close(self) -> None:
        with self._lock:
            try:
                self._outgoing.close()
            except OSError:
                return

"""This machine, its boot and its processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from lakelog.errors import InvalidRequest
from lakelog.options.environment import PYSPARK_BELOW, PYSPARK_OLDEST

K = TypeVar("K")
V = TypeVar("V")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SPACE: Final = Path("/proc/self/ns/pid")
_THREADS: Final = Path("/proc/self/task")
_POOL_THREAD: Final = re.compile(r"polars-\d+")
"""A thread of the pool; polars starts others when it is imported, which no write needs."""
_VERSION: Final = re.compile(r"""^__version__\b[^"']*["'](\d+)\.(\d+)""", re.MULTILINE)
_INSTALL_JAVA: Final = (
    ("brew", "brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"),
    ("apt-get", "sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless"),
    ("dnf", "sudo dnf install -y java-17-openjdk-headless"),
)


def machine_name() -> str:
    """The host name of this machine, for messages."""
    return platform.node()


def machine_identity() -> str:
    """Host name and boot id, which are equal for processes that share local files and memory, as far as is known.

    If the system has no boot id, the number of its network card replaces it.
    """
    boot = f"{uuid.getnode():012x}"
    with contextlib.suppress(OSError):
        boot = _BOOT_ID.read_text().strip()
    return f"{machine_name()}/{boot}"


def process_space() -> str:
    """Where a process number means one process: the machine, and the number of the container's process namespace.

    Containers on one machine may share its name and boot, but not the numbers of their processes.
    """
    with contextlib.suppress(OSError):
        return f"{machine_identity()}/{os.readlink(_SPACE)}"
    return machine_identity()


def java_program() -> str:
    """The ``java`` command of JAVA_HOME, otherwise of the path."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def java_found() -> str | None:
    """The file of that command; None if there is none."""
    return shutil.which(java_program())


def can_start_spark() -> bool:
    """Returns whether this machine has a PySpark that lakelog was tested with, and a Java to run it on."""
    return java_found() is not None and _has_tested_pyspark()


def has_spark_session() -> bool:
    """Returns whether a Spark session runs in this process, or waits for it as in a job of ``spark-submit``."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(context, "_active_spark_context", None) is not None


def _has_tested_pyspark() -> bool:
    """Reads the version in its file, also in a zip: an import would take longer than a small statement."""
    spec = importlib.util.find_spec("pyspark")
    read = getattr(spec and spec.loader, "get_data", None)
    if spec is None or spec.origin is None or read is None:
        return False
    with contextlib.suppress(OSError):
        version = _VERSION.search(read(str(Path(spec.origin).with_name("version.py"))).decode())
        return version is not None and PYSPARK_OLDEST <= (int(version[1]), int(version[2])) < PYSPARK_BELOW
    return False


def install_java() -> str:
    """The command that installs a Java for Spark on this machine."""
    for program, command in _INSTALL_JAVA:
        if shutil.which(program):
            return command
    return "sdk install java (from https://sdkman.io), or set JAVA_HOME to a JDK or JRE 17 or newer"


def is_running(process: int) -> bool:
    """Returns whether a process of this machine exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs for another user
        return True
    return True


def has_ended(space: object, process: object) -> bool:
    """Returns whether a process of ``process_space`` has ended; False if only another machine or container knows."""
    return isinstance(process, int) and space == process_space() and not is_running(process)


class _State:
    has_threads = False
    """True if polars had a thread pool at the last fork of this process."""
    is_broken = False
    """True if this process is the child of such a fork."""


def check_not_forked() -> None:
    """Raises InvalidRequest in a process that was forked while polars had a thread pool; called by writers."""
    if _State.is_broken:
        raise InvalidRequest(
            "this process was forked from one that had used lakelog, and cannot write: polars' threads do not survive "
            "a fork. Start it with multiprocessing.get_context('spawn'), or fork before the first use of lakelog"
        )


class ProcessLock:
    """A reentrant lock of what only the process that made it may use; a forked child gets InvalidRequest."""

    def __init__(self, what: str) -> None:
        self._what, self._process, self._lock = what, os.getpid(), threading.RLock()

    def __enter__(self) -> None:
        if os.getpid() != self._process:
            raise InvalidRequest(f"{self._what} belongs to process {self._process}, and a fork of it cannot use it")
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _before_fork() -> None:
    _State.has_threads = False
    with contextlib.suppress(OSError):
        comms = (thread / "comm" for thread in _THREADS.iterdir())
        _State.has_threads = any(_POOL_THREAD.fullmatch(comm.read_text().strip()) for comm in comms)


def _in_child() -> None:
    _State.is_broken = _State.is_broken or _State.has_threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


class PerProcess(Generic[K, V]):
    """Values by key that the threads of a process share, such as clients; each is made when a thread first needs it.

    A forked process makes its own: it neither uses nor frees those of its parent, which may be connected.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, K], V] = {}
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key; ``make`` makes it, while other threads wait. Raises what it raises."""
        own_key = os.getpid(), key
        if own_key not in self._values:
            with self._lock:
                if own_key not in self._values:
                    self._values[own_key] = make()
        return self._values[own_key]

    def all(self) -> list[V]:
        """The values of this process."""
        with self._lock:
            return [value for (process, _), value in self._values.items() if process == os.getpid()]

"""A real standalone cluster: a master and its workers, each a process, from the jars of pip's PySpark."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lakelog.service.servers.server_process import ServerProcess, free_port
from servers.spark_home import SPARK_HOME, server_environment

LOOPBACK = "127.0.0.1"
_CLASS = str(SPARK_HOME / "bin" / "spark-class")


class Master(ServerProcess):
    """The master of a cluster, on an address of this machine."""

    NAME = "master of the Spark cluster"
    START_S = 200.0

    def __init__(self, directory: Path, address: str = LOOPBACK) -> None:
        super().__init__(directory)
        self._address, self._port, self._http = address, free_port(), free_port()
        self.url = f"spark://{address}:{self._port}"

    def environment(self) -> Mapping[str, str]:
        return server_environment("256m")

    def command(self) -> Sequence[str]:
        place = ["--host", self._address, "--port", str(self._port), "--webui-port", str(self._http)]
        return [_CLASS, "org.apache.spark.deploy.master.Master", *place]

    def state(self) -> dict[str, Any]:
        """What the master tells of itself; empty while it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://{self._address}:{self._http}/json/", timeout=3) as answer,
        ):
            found: dict[str, Any] = json.load(answer)
            return found
        return {}

    def is_ready(self) -> bool:
        return self.state().get("status") == "ALIVE"


class Worker(ServerProcess):
    """A worker of one core."""

    NAME = "worker of the Spark cluster"
    START_S = 200.0

    def __init__(self, directory: Path, master: Master, memory: str, address: str = LOOPBACK) -> None:
        super().__init__(directory)
        self._master, self._memory, self._address = master, memory, address
        self._port, self._http = free_port(), free_port()

    def environment(self) -> Mapping[str, str]:
        return server_environment("256m")

    def command(self) -> Sequence[str]:
        place = ["--host", self._address, "--port", str(self._port), "--webui-port", str(self._http)]
        size = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self.directory / "work")]
        return [_CLASS, "org.apache.spark.deploy.worker.Worker", *place, *size, self._master.url]

    def is_ready(self) -> bool:
        workers = self._master.state().get("workers", [])
        return any(w["port"] == self._port and w["state"] == "ALIVE" for w in workers)


class SparkCluster:
    """A master and two workers of one core each; starts with ``with``, ends with all its executors."""

    def __init__(self, directory: str | Path, memory: str = "1100m") -> None:
        home = Path(directory)
        self._master = Master(home / "master")
        self._workers = [Worker(home / f"worker-{n}", self._master, memory) for n in range(2)]
        self.url = self._master.url

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            for server in (self._master, *self._workers):
                started.enter_context(server)
            self._started = started.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._started.close()

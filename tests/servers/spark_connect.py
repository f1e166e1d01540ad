"""A real Spark Connect server: the class that PySpark's own start script runs, from the jars of pip's PySpark."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakelog.service.servers.server_process import ServerProcess, free_port
from servers.spark_home import SPARK_HOME, conf_arguments, server_environment

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class SparkConnectServer(ServerProcess):
    """A server with a local Spark in it; its Python workers find lakelog as those of a real one do, as a package."""

    NAME = "Spark Connect server"
    START_S = 200.0

    def __init__(self, directory: str | Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._port, self._settings = free_port(), dict(settings)
        self.url = f"sc://127.0.0.1:{self._port}"

    def environment(self) -> Mapping[str, str]:
        return server_environment("1g")

    def command(self) -> Sequence[str]:
        place = {"address": "127.0.0.1", "port": str(self._port)}
        own = {f"spark.connect.grpc.binding.{key}": value for key, value in place.items()}
        settings = conf_arguments({"spark.master": "local[2]", **self._settings, **own})
        return [str(SPARK_HOME / "bin" / "spark-submit"), "--class", _MAIN, *settings]

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

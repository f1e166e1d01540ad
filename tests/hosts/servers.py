"""The servers of a network of hosts, each a process on one of them, which starts again as after a loss of power."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from chaos.servers import KafkaServer
from hosts.network import Host
from lakelog.service.servers.server_process import ServerProcess
from servers.s3_server import S3Server
from servers.spark_cluster import Master, Worker


class OnHost(ServerProcess):
    """Runs the command of the class beside it on its host, in the same directory there."""

    host: Host

    def command(self) -> Sequence[str]:
        given = super().command()  # type: ignore[safe-super]
        own = {name: value for name, value in super().environment().items() if os.environ.get(name) != value}
        return self.host.command(given, {**own, "SPARK_LOCAL_IP": self.host.address}, self.directory)

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def stop(self) -> None:
        """A softer signal would end only the process that has entered the host."""
        self.kill()

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None


class S3OnHost(OnHost, S3Server):
    """The S3 server."""

    def __init__(self, host: Host) -> None:
        self.host = host
        super().__init__(host.disk / "s3", host.address)


class KafkaOnHost(OnHost, KafkaServer):
    """A Kafka broker, which tells its clients the name of its host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        super().__init__(host.disk / "kafka")
        self.bootstrap = self.address = f"{host.name}:{self._port}"

    def _settings(self) -> dict[str, str]:
        return {key: value.replace("127.0.0.1", self.host.name) for key, value in super()._settings().items()}


class MasterOnHost(OnHost, Master):
    """The master of a Spark cluster."""

    def __init__(self, host: Host) -> None:
        self.host = host
        super().__init__(host.disk / "master", host.name)


class WorkerOnHost(OnHost, Worker):
    """A worker of a Spark cluster, with one core."""

    def __init__(self, host: Host, master: MasterOnHost, number: int = 0) -> None:
        self.host = host
        super().__init__(host.disk / f"worker-{number}", master, "600m", host.name)

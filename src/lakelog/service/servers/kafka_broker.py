"""A real Apache Kafka broker of one node, on loopback, for the demo, the benchmarks and the tests."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakelog.errors import Unavailable
from lakelog.service.servers.jars import resolve_jars
from lakelog.service.servers.server_process import QUICK_START, ServerProcess, free_port, java_program

_JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
"""The second one binds the log: without it a failed start is silent."""


class KafkaBroker(ServerProcess):
    """One node that is broker and controller. The first start ever downloads the jars (45 MB)."""

    NAME = "Kafka broker"
    START_S = 60.0

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory)
        self._port, self._controller = free_port(), free_port()
        self.bootstrap = self.address = f"127.0.0.1:{self._port}"

    def command(self) -> Sequence[str]:
        """The broker; its storage is formatted the first time."""
        classpath = f"{resolve_jars(_JARS)[0].parent.absolute()}/*"
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings().items()), encoding="utf-8")
        if not (self.directory / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.UUID(int=self._port).bytes).decode().rstrip("=")
            self._run_java(classpath, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
        return _java(classpath, "kafka.Kafka", str(settings))

    def is_ready(self) -> bool:
        """Whether it names its brokers."""
        try:
            return bool(
                AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=1).brokers
            )
        except KafkaException:
            return False

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "4194304",
            # after a kill the broker is refused until its old session ends, 9 s by default
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
        }

    def _run_java(self, classpath: str, main: str, *arguments: str) -> None:
        done = subprocess.run(_java(classpath, main, *arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"Kafka's {main} failed: {(done.stdout + done.stderr)[-2000:]}")


def _java(classpath: str, main: str, *arguments: str) -> list[str]:
    options = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java_program(), *options, "-cp", classpath, main, *arguments]

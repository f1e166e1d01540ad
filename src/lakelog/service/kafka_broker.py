"""A real Apache Kafka broker of one node, on loopback, for the demo, the benchmarks and the tests."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakelog.errors import Unavailable
from lakelog.io.clock import monotonic_s, sleep
from lakelog.service.jars import resolve_jars

_JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
"""The second one binds the log: without it a failed start is silent."""

_START_S = 60.0


class KafkaBroker:
    """Starts with ``start`` (or ``with``) and keeps its data in ``directory``; after ``kill`` it can be started again.

    The first start ever downloads the jars (45 MB). Raises Unavailable with the end of the broker's log.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port, self._controller = _free_port(), _free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Formats the storage the first time, starts the broker and waits until it answers."""
        jars = resolve_jars(_JARS)
        classpath = f"{jars[0].parent}/*"
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings().items()), encoding="utf-8")
        if not (self.directory / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.UUID(int=self._port).bytes).decode().rstrip("=")
            self._run_java(classpath, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
        with (self.directory / "broker.log").open("ab") as output:
            self._process = subprocess.Popen(
                _java(classpath, "kafka.Kafka", str(settings)),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ends the broker in order."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """kill -9, for tests of what survives."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

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

    def _wait(self) -> None:
        end = monotonic_s() + _START_S
        while monotonic_s() < end:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                if AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                sleep(0.1)
        log = (self.directory / "broker.log").read_text(encoding="utf-8", errors="replace")
        raise Unavailable(f"the Kafka broker did not start: {log[-2000:]}")


def _java(classpath: str, main: str, *arguments: str) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    options = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java, *options, "-cp", classpath, main, *arguments]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

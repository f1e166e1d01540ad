"""A server as a child process: start, stop, kill -9, and the end of its log if it does not start."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakelog.errors import Unavailable
from lakelog.io.clock import monotonic_s, sleep
from lakelog.io.machine import java_program
from lakelog.service.servers.jars import resolve_jars

QUICK_START: Final = "-XX:TieredStopAtLevel=1"
"""JVM options of a server on its client's machine: the optimising compiler would use the cores of both for the
first minutes (measured: 7.1 against 4.4 s of CPU for a start of Kafka, 66 % against 27 % of a core at 1,000 rows/s)."""


class ServerProcess(ABC):
    """One child process with its data in a directory; it can be restarted after ``kill``.

    ``start`` or ``with`` starts it; its output is ``server.log`` in the directory.
    """

    NAME: ClassVar[str]
    """The name of the server in errors."""
    START_S: ClassVar[float] = 90.0
    """Maximum seconds until it answers."""
    address: str = ""
    """The address of a log server for the option of a table."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Program and arguments. Called at each start, with the directory as the working directory."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Returns whether it answers. Called repeatedly during the start."""

    def environment(self) -> Mapping[str, str]:
        """Its environment variables."""
        return os.environ

    def start(self) -> Self:
        """Starts the server and waits until it answers. Raises Unavailable with the end of its log."""
        with (self.directory / "server.log").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=self.environment(),
                start_new_session=True,
            )
        try:
            end = monotonic_s() + self.START_S
            while self.process.poll() is None and monotonic_s() < end:
                if self.is_ready():
                    return self
                sleep(0.05)
        except BaseException:
            self.kill()
            raise
        self.kill()
        log = (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")
        raise Unavailable(f"the {self.NAME} did not start: {log[-2000:]}")

    def stop(self) -> None:
        """Stops the server cleanly."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def kill(self) -> None:
        """Kills the server (SIGKILL), for tests of durability."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


KAFKA_JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
"""The second one binds the log: without it a failed start is silent."""


class KafkaBroker(ServerProcess):
    """One node that is broker and controller, by default on a free port.

    The first start on a machine downloads the jars (45 MB).
    """

    NAME = "Kafka broker"
    START_S = 60.0

    def __init__(self, directory: str | Path, port: int | None = None) -> None:
        super().__init__(directory)
        self._port, self._controller = port or free_port(), free_port()
        self.bootstrap = self.address = f"127.0.0.1:{self._port}"

    def command(self) -> Sequence[str]:
        """The command of the broker; formats its storage at the first start."""
        classpath = f"{resolve_jars(KAFKA_JARS)[0].parent.absolute()}/*"
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings().items()), encoding="utf-8")
        if not (self.directory / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.UUID(int=self._port).bytes).decode().rstrip("=")
            self._run_java(classpath, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
        return _java(classpath, "kafka.Kafka", str(settings))

    def is_ready(self) -> bool:
        """Returns whether it lists its brokers."""
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
            # after a kill, the broker is refused until its old session ends, 9 s by default
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

"""Kafka brokers as servers are run: three of them, and one with TLS and SASL."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog.service.servers.server_process import KafkaBroker, free_port

_CLUSTER = "bGFrZWxvZy1jbHVzdGVyMQ"


class _Node(KafkaBroker):
    """One of three nodes that are broker and controller."""

    def __init__(self, directory: Path, number: int, controllers: list[int]) -> None:
        super().__init__(directory)
        self.number, self._controllers = number, controllers
        self._controller = controllers[number - 1]

    def is_ready(self) -> bool:
        """Its cluster asks when all nodes have started."""
        return True

    def _run_java(self, classpath: str, main: str, *arguments: str) -> None:
        """Formats the storage of the first node, of which the others have a copy: that takes no Java."""
        given, data = list(arguments), self.directory / "data"
        given[given.index("-t") + 1] = _CLUSTER
        if self.number == 1:
            super()._run_java(classpath, main, *given)
            return
        data.mkdir()
        shutil.copy(self.directory.with_name("1") / "data" / "bootstrap.checkpoint", data)
        (data / "meta.properties").write_text(f"version=1\ncluster.id={_CLUSTER}\nnode.id={self.number}\n")

    def _settings(self) -> dict[str, str]:
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(self._controllers, 1))
        own = {"node.id": str(self.number), "controller.quorum.voters": voters, "min.insync.replicas": "2"}
        return super()._settings() | own


class KafkaCluster:
    """Three brokers; a topic with three replicas stays available without one of them."""

    def __init__(self, directory: Path) -> None:
        controllers = [free_port() for _ in range(3)]
        self.nodes = {n: _Node(directory / str(n), n, controllers) for n in (1, 2, 3)}
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> Self:
        try:
            for node in self.nodes.values():
                node.start()
            self.wait_for_brokers(3)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def wait_for_brokers(self, count: int) -> None:
        admin, end = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}), time.monotonic() + 90
        while True:
            try:
                if len(admin.list_topics(timeout=2).brokers) >= count:
                    return
            except Exception:
                pass
            assert time.monotonic() < end, "the brokers did not find each other"
            time.sleep(0.1)

    def create_topic(self, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 3)], operation_timeout=30)[name].result(120)
        for node in self.nodes.values():
            one, end = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0}), time.monotonic() + 120
            while name not in one.list_topics(timeout=120).topics:
                assert time.monotonic() < end, f"node {node.number} does not hear of the topic"
                time.sleep(0.05)

    def leader(self, topic: str, partition: int) -> int:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return admin.list_topics(topic, timeout=120).topics[topic].partitions[partition].leader


class SecureKafka(KafkaBroker):
    """A broker with a second listener, SASL_SSL, for a user with SCRAM-SHA-512 and PLAIN credentials."""

    USER, PASSWORD = "me", "hush hush"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._secure_port = free_port()
        self.secure = f"localhost:{self._secure_port}"
        self._store = self.directory / "keys.pem"
        self.ca = self.directory / "ca.pem"

    def start(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._store.exists():
            names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(self._store)]
            subprocess.run([*made, "-out", str(self.ca), *names], check=True, capture_output=True)
            with self._store.open("a") as store:
                store.write(self.ca.read_text())
        return super().start()

    def properties(self, mechanism: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": self.USER,
            "sasl.password": self.PASSWORD,
            "ssl.ca.location": str(self.ca),
        }

    def _run_java(self, classpath: str, main: str, *arguments: str) -> None:
        credentials = f"SCRAM-SHA-512=[name={self.USER},password={self.PASSWORD}]"
        super()._run_java(classpath, main, *arguments, "--add-scram", credentials)

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        login = "org.apache.kafka.common.security"
        settings["listeners"] += f",SASL_SSL://127.0.0.1:{self._secure_port}"
        settings["advertised.listeners"] += f",SASL_SSL://{self.secure}"
        settings["listener.security.protocol.map"] += ",SASL_SSL:SASL_SSL"
        return settings | {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule required "
            f'user_{self.USER}="{self.PASSWORD}";',
            "ssl.keystore.location": str(self._store),
            "ssl.keystore.type": "PEM",
        }

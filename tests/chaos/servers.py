"""The servers behind the log systems, by the name of the system; the embedded log and the log in files have none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Protocol, Self

import debezium_consumer
import packed_messages
from lakelog.logstore.base import LogLocation
from lakelog.options.registry import Registry
from lakelog.service.servers.server_process import KafkaBroker
from servers.pulsar_server import PulsarServer

_LOST = b"Digest mismatch for ledger-id"


class ServerBroken(Exception):
    """A server has lost its own data, as its log says: no run can say anything of what lies above it."""


class Server(Protocol):
    """A server of one node that keeps its data in a directory and its port over a kill."""

    process: subprocess.Popen[bytes] | None

    def start(self) -> Self:
        """Starts it, or starts it again, and waits until it answers."""

    def kill(self) -> None:
        """kill -9."""

    def stop(self) -> None:
        """Ends it in order."""

    def options(self) -> dict[str, str]:
        """What a table with a log on it says."""

    def values(self, log: LogLocation) -> Iterator[bytes | None]:
        """The values of all records of a log, by a client that is not lakelog's."""

    def check(self) -> None:
        """Raises ServerBroken when it cannot serve again what it acknowledged."""


class KafkaServer(KafkaBroker):
    """A Kafka broker."""

    def options(self) -> dict[str, str]:
        return {"log-store.type": "kafka", "log-store.address": self.bootstrap}

    def values(self, log: LogLocation) -> Iterator[bytes | None]:
        return debezium_consumer.messages(self.bootstrap, log.topic)

    def check(self) -> None:
        """No such fault of Kafka is known."""


class PulsarNode(PulsarServer):
    """Pulsar's broker and storage."""

    def options(self) -> dict[str, str]:
        return {
            "log-store.type": "pulsar",
            "log-store.address": self.service_url,
            "properties.pulsar.admin.adminUrl": self.admin_url,
        }

    def values(self, log: LogLocation) -> Iterator[bytes | None]:
        return packed_messages.values(self.service_url, log.topic, log.buckets)

    def check(self) -> None:
        """Its storage may not read its last entry after kill -9 (apache/pulsar#22906); one node has no copy."""
        if _LOST in (self.directory / "server.log").read_bytes():
            raise ServerBroken(
                "Pulsar cannot open a ledger any more, 'Digest mismatch' (apache/pulsar#22906): its own data are lost, "
                "so this run says nothing; run it again with another --seed"
            )


SERVERS: Registry[Server] = Registry(
    "log server", {"kafka": "chaos.servers:KafkaServer", "pulsar": "chaos.servers:PulsarNode"}
)
LOGS = ("embedded", "files", *SERVERS)

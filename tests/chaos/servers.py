"""The servers behind the log systems, by the name of the system; the embedded log has none."""

from __future__ import annotations

from typing import Protocol, Self

from lakelog.options.registry import Registry


class Server(Protocol):
    """A server of one node that keeps its data in a directory and its port over a kill."""

    bootstrap: str

    def start(self) -> Self:
        """Starts it, or starts it again, and waits until it answers."""

    def kill(self) -> None:
        """kill -9."""

    def stop(self) -> None:
        """Ends it in order."""


SERVERS: Registry[Server] = Registry("log server", {"kafka": "lakelog.service.kafka_broker:KafkaBroker"})
LOGS = ("embedded", *SERVERS)

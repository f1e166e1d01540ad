"""Factory of a log system: what the other parts of lakelog need to know of it before its client is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.logstore.base import LogLocation, LogSystem
from lakelog.options.registry import load_target

VALUE: Final = "value"
FILE: Final = "file"
VALUE_OR_FILE: Final = "value or file"
"""What the value of a client's property is; the last one may begin with ``file:``, for instance."""


@dataclass(frozen=True)
class LogFactory:
    """Makes a log system and says what it can do; its module imports no client.

    ``system`` is the ``"module:Class"`` of the ``LogSystem``. ``address`` describes the address of a server for error
    messages. ``schemes`` are the URL schemes of addresses that choose this system without ``log-store.type``; "" stands
    for all that no other system takes. ``file`` is the path of a log that is a local file, below the directory of its
    table; None for a log on a server. ``file_suffixes`` are those of the files that belong to it. ``properties`` lists
    the client's properties that a table may have and what their values are; it must have none that loads code, runs a
    program or sends secrets to another server. ``speaks_kafka`` says that Spark's Kafka connector reads and writes the
    log. ``extras`` maps a foreign root package to the extra of lakelog that brings it.
    """

    name: str
    system: str
    address: str = "the path of a file"
    schemes: tuple[str, ...] = ()
    file: str | None = None
    file_suffixes: tuple[str, ...] = ("",)
    properties: Mapping[str, str] = field(default_factory=dict)
    speaks_kafka: bool = False
    extras: Mapping[str, str] = field(default_factory=dict)

    def __call__(self) -> LogSystem:
        """The log system. Raises NotInstalled when its client is missing."""
        made: LogSystem = load_target("log system", self.name, self.system, self.extras)()
        return made

    @property
    def is_local(self) -> bool:
        """Whether a log is a file of this machine, which goes with its table, and not on a server."""
        return self.file is not None

    def default_address(self, table_path: str) -> str:
        """The address of a table's log for which none was given: "" on a server."""
        return "" if self.file is None else f"{table_path}/{self.file}"

    def place(self, log: LogLocation) -> str:
        """Where a log is, for messages."""
        return log.address if self.is_local else f"topic '{log.topic}' on {log.address}"

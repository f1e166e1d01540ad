"""Factory of a log system, with its properties that lakelog needs before it imports the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.logstore.base import LogLocation, LogMirror, LogSystem
from lakelog.options.registry import load_target

VALUE: Final = "value"
FILE: Final = "file"
VALUE_OR_FILE: Final = "value or file"
SERVER: Final = "server"
"""Kinds of client property values; a VALUE_OR_FILE may begin with ``file:``, for example. A SERVER is an address that
the client connects to (several with commas): the dashboard checks it against its allowed servers."""


@dataclass(frozen=True)
class LogFactory:
    """Creates a log system and describes its features; its module imports no client.

    ``system`` is the ``"module:Class"`` of the ``LogSystem``. ``address`` describes the address of a server for error
    messages. ``schemes`` are the URL schemes of addresses that select this system without ``log-store.type``; ""
    matches all schemes of no other system. ``file`` is the path of a local log file, relative to the table's directory;
    None for a log on a server. ``file_suffixes`` are the suffixes of the log's files; with ``any_storage`` they may be
    in an object store or in HDFS, too. ``data_format`` is the format of new tables whose options name none; "" means
    the default of ``log-store.data-format``. ``properties`` maps the allowed client properties to their kinds. It must
    contain no property that loads code, runs a program or sends secrets to another server. ``speaks_kafka`` is True if
    Spark's Kafka connector can read and write the log. ``extras`` maps a third-party root package to the extra of
    lakelog that installs it. ``mirror`` is the ``"module:Class"`` of the ``LogMirror``; "" if topics cannot be mirrors.
    """

    name: str
    system: str
    address: str = "the path of a file"
    schemes: tuple[str, ...] = ()
    file: str | None = None
    file_suffixes: tuple[str, ...] = ("",)
    any_storage: bool = False
    data_format: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    speaks_kafka: bool = False
    extras: Mapping[str, str] = field(default_factory=dict)
    mirror: str = ""

    def __call__(self) -> LogSystem:
        """The log system. Raises NotInstalled if its client is missing."""
        system: LogSystem = load_target("log system", self.name, self.system, self.extras)()
        return system

    def open_mirror(self, location: LogLocation) -> LogMirror:
        """A mirror in a topic, for the log of the table ``location.owner``. Raises NotInstalled, InvalidOption."""
        mirror: LogMirror = load_target("log system", self.name, self.mirror, self.extras)(location)
        return mirror

    @property
    def is_local(self) -> bool:
        """True if a log is a local file, which is deleted with its table, and not on a server."""
        return self.file is not None

    def default_address(self, table_path: str) -> str:
        """The default address of a table's log: "" on a server."""
        return "" if self.file is None else f"{table_path}/{self.file}"

    def describe(self, log: LogLocation) -> str:
        """The location of a log, for messages."""
        return log.address if self.is_local else f"topic '{log.topic}' on {log.address}"

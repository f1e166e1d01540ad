"""Interface of a check, which examines one part and returns findings with their fixes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from lakelog.errors import LakelogError
from lakelog.io import file_io_for
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import FileIO
from lakelog.lake import Lake
from lakelog.logstore import log_factory, log_system_at
from lakelog.logstore.factory import LogFactory

PASS: Final = "pass"
WARN: Final = "warn"
FAIL: Final = "fail"
Outcome = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """A finding of a check: ``pass`` works, ``warn`` works with a restriction, ``fail`` does not work.

    ``what_to_do`` is empty for ``pass``.
    """

    check: str
    outcome: Outcome
    found: str
    what_to_do: str = ""


@dataclass(frozen=True)
class CheckContext:
    """The subject of the checks: a warehouse with its connection, the log of future tables, and a Spark session.

    ``log_properties`` are those of the log's client (they may be secrets, like the options). ``session`` is a Spark
    session from elsewhere, ``remote`` the address of a Spark Connect server. The default of ``log`` is the log system
    of the address.
    """

    warehouse: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    log: str | None = None
    address: str | None = None
    log_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    session: Any = None
    remote: str | None = None

    @property
    def log_factory(self) -> LogFactory:
        """The log system of future tables."""
        return log_factory(self.log or log_system_at(self.address, self.warehouse.removeprefix("file://")))

    @property
    def io(self) -> FileIO:
        """The storage of the warehouse. Raises the errors of ``file_io_for``."""
        return file_io_for(self.warehouse, self.storage_options)

    @contextmanager
    def scratch_directory(self) -> Iterator[tuple[FileIO, str]]:
        """Context with a new directory in the warehouse for trials; it is deleted afterwards.

        So is the directory of the warehouse, if it was created for this.
        """
        io = self.io
        root = io.absolute(self.warehouse)
        was_there = io.exists(root)
        directory = f"{root}/.lakelog-doctor-{new_attempt()}"
        try:
            yield io, directory
        finally:
            io.delete_dir(directory)
            if not was_there:
                io.delete_empty_dir(root)


class Check(ABC):
    """Checks one part. Registered in ``CHECKS``; leaves no files or tables."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    """The checked part, for the progress line."""

    @abstractmethod
    def run(self, around: CheckContext) -> Iterator[Finding]:
        """Its findings. A LakelogError becomes a failure with the error's own advice."""

    def passed(self, found: str) -> Finding:
        """A finding of a part that works."""
        return Finding(self.NAME, PASS, found)

    def warned(self, found: str, what_to_do: str) -> Finding:
        """A finding of a part that works with a restriction."""
        return Finding(self.NAME, WARN, found, what_to_do)

    def failed(self, found: str, what_to_do: str) -> Finding:
        """A finding of a part that does not work."""
        return Finding(self.NAME, FAIL, found, what_to_do)


def lake_of(around: CheckContext) -> Lake:
    """The checked lake; nothing of it starts Spark."""
    return Lake(around.warehouse, storage_options=around.storage_options, catalog_options=around.catalog_options)


def listed(around: CheckContext) -> tuple[Lake, list[str]]:
    """The checked lake, and the names of its tables; none if they cannot be listed (the check of the catalog)."""
    lake = lake_of(around)
    with suppress(LakelogError):
        if file_io_for(around.warehouse, around.storage_options).exists(around.warehouse):
            return lake, lake.list_tables()
    return lake, []

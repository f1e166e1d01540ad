"""What a check is: it looks at one thing and says what it found and what to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from lakelog.errors import LakelogError
from lakelog.io import file_io_for
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import FileIO
from lakelog.lake import Lake, Table
from lakelog.logstore import log_factory, log_system_at
from lakelog.logstore.factory import LogFactory

PASS: Final = "pass"
WARN: Final = "warn"
FAIL: Final = "fail"
Outcome = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What a check found: ``pass`` works, ``warn`` works but not as well as it could, ``fail`` does not work.

    ``what_to_do`` is empty for what passes.
    """

    check: str
    outcome: Outcome
    found: str
    what_to_do: str = ""


@dataclass(frozen=True)
class CheckContext:
    """What is looked at: a warehouse and how it is reached, a log that tables are to have, a Spark session.

    ``log_properties`` go to the log's client (they may be secrets, as the options may). ``session`` is a Spark session
    that somebody else has made, ``remote`` the address of one of Spark Connect. Without ``log`` it is the log system of
    the address.
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
        """The log system that tables are to have."""
        return log_factory(self.log or log_system_at(self.address))

    @property
    def io(self) -> FileIO:
        """The storage of the warehouse. Raises what ``file_io_for`` raises."""
        return file_io_for(self.warehouse, self.storage_options)

    @contextmanager
    def trial(self) -> Iterator[tuple[FileIO, str]]:
        """A directory of a new name in the warehouse, to try things in; it is gone afterwards.

        So is the warehouse's own, if it was made for this.
        """
        io = self.io
        root = io.absolute(self.warehouse)
        was_there = io.exists(root)
        place = f"{root}/.lakelog-doctor-{new_attempt()}"
        try:
            yield io, place
        finally:
            io.delete_dir(place)
            if not was_there:
                io.delete_empty_dir(root)


class Check(ABC):
    """Looks at one thing. Registered in ``CHECKS``; changes nothing that stays."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    """What it looks at, for the line that says what is going on."""

    @abstractmethod
    def look(self, around: CheckContext) -> Iterator[Finding]:
        """Its findings. What a LakelogError says is a failure with the error's own advice."""

    def passed(self, found: str) -> Finding:
        """It works."""
        return Finding(self.NAME, PASS, found)

    def warned(self, found: str, what_to_do: str) -> Finding:
        """It works, not as well as it could."""
        return Finding(self.NAME, WARN, found, what_to_do)

    def failed(self, found: str, what_to_do: str) -> Finding:
        """It does not work."""
        return Finding(self.NAME, FAIL, found, what_to_do)


def lake_of(around: CheckContext) -> Lake:
    """The lake that is looked at; nothing of it starts Spark."""
    return Lake(around.warehouse, storage_options=around.storage_options, catalog_options=around.catalog_options)


def list_tables(around: CheckContext) -> Iterator[Table]:
    """Its tables; none where they cannot be listed, which the check of the catalog tells of."""
    try:
        if not file_io_for(around.warehouse, around.storage_options).exists(around.warehouse):
            return
        lake = lake_of(around)
        names = lake.list_tables()
    except LakelogError:
        return
    for name in names:
        try:
            yield lake.table(name)
        except LakelogError:
            continue

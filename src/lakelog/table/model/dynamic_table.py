"""One logical table as an immutable value: its path, its schema, its log; sent to executors unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from lakelog.catalog.base import TableLocation
from lakelog.errors import CommitConflict, NotFound, UnsupportedFeature
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.read.changes import producer_of
from lakelog.filestore.store import FileStore
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore.base import LogLocation
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.merge.table_rules import check_access, log_content
from lakelog.options.features import TableFeatures
from lakelog.options.log import (
    CHANGE_TRACKING,
    CHANGELOG_MODE,
    CHANGES,
    DATA_FORMAT,
    EMIT_MODE,
    LOG_ENABLED,
    READ_MODE,
    STREAMING,
    WRITER_TIMEOUT,
)
from lakelog.options.option import Options
from lakelog.options.table import MERGE_ON_READ
from lakelog.options.view import VIEW
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.log_options import check_log, log_generation, log_location
from lakelog.table.model.registrations import Registrations

BRANCH_PREFIX: Final = "branch_"
"""The prefix of the branch in a name such as ``t$branch_dev``."""

OtherTables = Callable[[str], "DynamicTable"]
"""Opens a table by its full name. Raises NotFound, InvalidRequest for a catalog that is unknown here."""


@dataclass(frozen=True)
class DynamicTable:
    """A table and the options of one use of it (``hints``: canonical keys, from a hint or a DataFrame option).

    ``branch`` is the branch in use, with its newest schema in ``location``; ``view`` the system table (``snapshots``,
    ``audit_log``, …), None for the table itself. ``others`` opens a table that the metadata of this one names, such as
    a source of a materialized view; it stays in the process that opened the table, None elsewhere. Raises
    UnsupportedFeature for a table with access rules.
    """

    location: TableLocation
    hints: Mapping[str, str] = field(default_factory=dict)
    branch: str = MAIN_BRANCH
    view: str | None = None
    others: OtherTables | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_access(self.schema.options, self.name)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "others"}

    def with_hints(self, hints: Mapping[str, str]) -> DynamicTable:
        """The same table with options for one use."""
        return replace(self, hints={**self.hints, **hints})

    @cached_property
    def whole(self) -> DynamicTable:
        """The same table without the options of this use, which may exclude one of its stores."""
        return replace(self, hints={}) if self.hints else self

    def with_schema(self, schema: TableSchema) -> DynamicTable:
        """The same table with another schema."""
        return replace(self, location=replace(self.location, schema=schema))

    @cached_property
    def all_rows(self) -> DynamicTable:
        """The same table, whose batch reads return all rows of a snapshot.

        Those of some tables skip rows that no compaction has merged yet. A statement that replaces files, or changes
        all rows that meet a condition, reads the table in this way.
        """
        return self.with_schema(replace(self.schema, options={**self.schema.options, MERGE_ON_READ.key: "true"}))

    def with_newest_schema(self) -> DynamicTable:
        """The same table with the newest schema, which an ALTER TABLE may have created since it was opened."""
        schema = self.store.with_newest_schema().schema
        return self if schema is self.schema else DynamicTable(replace(self.location, schema=schema), self.hints)

    @property
    def name(self) -> str:
        """``[catalog.]db.table``, with ``$branch_<b>`` and ``$<system table>`` if it is one."""
        return f"{self.location.identifier}{self._suffix}"

    @property
    def address(self) -> str:
        """The address that reopens this table by path: its directory and the suffix of its name."""
        return self.path + self._suffix

    @property
    def _suffix(self) -> str:
        branch = "" if self.branch == MAIN_BRANCH else f"${BRANCH_PREFIX}{self.branch}"
        return branch if self.view is None else f"{branch}${self.view}"

    def check_writable(self) -> None:
        """Raises UnsupportedFeature for a system table, or a table feature that forbids it. Called before a write."""
        if self.view is not None:
            raise UnsupportedFeature(f"{self.name} is a system table: it cannot be written, only read")
        TableFeatures.of(self.schema.options).check_writable()

    def check_rows_writable(self) -> None:
        """Raises UnsupportedFeature for a system table, and for a materialized view, whose rows its query decides.

        Called before a write of rows.
        """
        self.check_writable()
        if VIEW.key in self.schema.options:
            raise UnsupportedFeature(
                f"{self.name} is a materialized view, whose rows are those of its query: write into its sources"
            )

    def check_log_writable(self) -> None:
        """Raises UnsupportedFeature for a write into a log that only another system writes."""
        if self.emits_log and self.log is not None and not self.record_format.is_written:
            raise UnsupportedFeature(
                f"the log of table {self.name} is '{self.options.need(DATA_FORMAT)}', which another system writes: "
                f"write there, or into the files alone ('{EMIT_MODE.key}' = 'file')"
            )

    @property
    def io(self) -> FileIO:
        return self.location.io

    @property
    def path(self) -> str:
        return self.location.path

    @property
    def schema(self) -> TableSchema:
        """The newest schema at the time the table was opened."""
        return self.location.schema

    @cached_property
    def options(self) -> Options:
        """Table options with the hints on top."""
        return Options(self.schema.options).merged(self.hints)

    @cached_property
    def store(self) -> FileStore:
        return FileStore(self.io, self.path, self.schema, self.branch, self.name, self.identity)

    @cached_property
    def identity(self) -> Identity:
        """The table's unique identity; no later table of the same name has it."""
        return Identity(self.io, TablePaths(self.path, self.schema, self.branch), self.name)

    def check_identity(self, within_s: float = 0.0) -> None:
        """Raises TableReplaced if the table was renamed, or dropped and perhaps created again, since it was opened.

        Called before a decision about the table. Costs one small read, or none if this process has made it within the
        last ``within_s`` seconds.
        """
        self.identity.check(within_s)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Wraps uses of the log: something may be missing there because the table or its log was replaced.

        Raises TableReplaced, or CommitConflict, in that case.
        """
        try:
            yield
        except NotFound as failure:
            self.check_identity()
            if self.with_newest_schema().log_generation > self.log_generation:
                raise CommitConflict(
                    f"the log of table {self.name} was removed after the table was opened, and nothing was written: "
                    "open the table again, or restart the query"
                ) from failure
            raise

    @cached_property
    def decided(self) -> DecidedEpochs:
        """The records of decided epochs that may not be in a snapshot yet."""
        identity = self.identity
        return DecidedEpochs(
            self.io,
            self.store.paths.branch_root,
            self.schema.is_keyed,
            identity.own_directory,
            identity.id or "",
            self.log_generation,
        )

    @cached_property
    def registered(self) -> Registrations:
        """The writers that may have rows in the log."""
        return Registrations(self.io, self.store.paths.branch_root)

    @cached_property
    def log(self) -> LogLocation | None:
        """The log store, None if the table has none. A branch has none; the log belongs to main."""
        if self._suffix or not self.options.need(LOG_ENABLED):
            return None
        location = log_location(self.schema, self.path, self.name)
        check_log(location, self.io)
        return replace(location, storage=self.io)

    @cached_property
    def record_format(self) -> LogFormat:
        """The format of the records in the log. Raises InvalidOption if an option that it needs is missing."""
        log = self.log
        return log_format(self.options.need(DATA_FORMAT)).of_table(self.options, "" if log is None else log.topic)

    @cached_property
    def log_generation(self) -> int:
        """How often the log was added or removed when this table was opened (RFC 27). Raises Corrupt."""
        return log_generation(self.schema)

    @property
    def lease_ms(self) -> int:
        """The duration of a log writer's lease, in milliseconds."""
        return int(self.options.need(WRITER_TIMEOUT).total_seconds() * 1000)

    @property
    def changelog_mode(self) -> str:
        """``all`` or ``upsert``: the changes in the log (``auto``: upsert if it holds keyed rows as written)."""
        mode = self.options.need(CHANGELOG_MODE)
        if mode == "auto":
            return "upsert" if self.schema.primary_keys and not self.publishes else "all"
        return mode if self.schema.primary_keys else "all"

    @property
    def publishes(self) -> bool:
        """True if the log gets the changes from snapshot to snapshot (``log.content``), not the rows of writes."""
        return self.log is not None and log_content(Options(self.schema.options)) == CHANGES

    @property
    def has_input_log(self) -> bool:
        """True if the log has the rows as they were written (``log.content``)."""
        return self.log is not None and not self.publishes

    @property
    def emits_log(self) -> bool:
        """True if a write appends its rows to the log (``emit.mode``, ``change-tracking``, ``log.content``)."""
        mode = self.options.need(EMIT_MODE)
        if not self.options.need(CHANGE_TRACKING) or self.publishes:
            return False
        return self.branch == MAIN_BRANCH and ("log" in mode.split(",") or (mode == "auto" and self.log is not None))

    @property
    def writes_log_by_default(self) -> bool:
        """True if writes fill the log because the table has one (``emit.mode`` = auto), not by explicit option."""
        return self.emits_log and self.options.need(EMIT_MODE) == "auto"

    @property
    def emits_files(self) -> bool:
        """True if a write fills the files (``emit.mode``); one that does not fill the log always does."""
        return not self.emits_log or self.options.need(EMIT_MODE) != "log"

    @property
    def emits_changelog(self) -> bool:
        """True if the rows of a write go to changelog files too (producer ``input``, ``change-tracking``)."""
        return self.options.need(CHANGE_TRACKING) and self.schema.is_keyed and producer_of(self.schema) == "input"

    @property
    def reads_log(self) -> bool:
        """True if this use reads the log (``read.mode``)."""
        return self.options.need(READ_MODE) == "log"

    @property
    def streams_log(self) -> bool:
        """True if a query of this use is a stream of the log (``streaming``)."""
        return self.reads_log and self.options.need(STREAMING)

    @property
    def reads_union(self) -> bool:
        """True if a batch read reads both stores (``read.mode``)."""
        return self.options.need(READ_MODE) == "union"


def open_branch(table: DynamicTable, branch: str) -> DynamicTable:
    """A branch of a table with the branch's newest schema. Raises NotFound naming the branches."""
    location = replace(table.location, schema=table.store.branches.schema(branch))
    return DynamicTable(location, table.hints, branch)

"""The log of a new table, or of one that gets a log by ALTER TABLE: its options and its topic or files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import AlreadyExists, Corrupt, InvalidOption, LakelogError, NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.base import LogLocation
from lakelog.logstore.formats import log_format, other_writer
from lakelog.merge.table_rules import default_log_content
from lakelog.options.catalog import CATALOG_EXTERNAL_PATHS
from lakelog.options.compatibility import with_defaults
from lakelog.options.log import (
    CHANGES,
    DATA_FORMAT,
    INPUT,
    LOG_ADDRESS,
    LOG_ADOPT,
    LOG_CONTENT,
    LOG_ENABLED,
    LOG_TOPIC,
)
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.options.table import BUCKET
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.log_options import check_log, log_id_in, planned_log, stored_log_options


def with_log_defaults(options: dict[str, str]) -> dict[str, str]:
    """Options of a new table (canonical keys) with those that its profile and the content of its log add."""
    has_log = Options(options).need(LOG_ENABLED)
    options = with_defaults(options, has_log)
    if has_log and LOG_CONTENT.key not in options and default_log_content(Options(options)) != INPUT:
        options[LOG_CONTENT.key] = default_log_content(Options(options))
    return options


@dataclass(frozen=True)
class NewLog:
    """A log that exists, and that no schema names yet.

    ``options`` are those of the table with the place of the log. ``is_named`` means that the user has given the topic
    or the address: a concurrent statement may have adopted the same log.
    """

    location: LogLocation
    options: Mapping[str, str]
    is_named: bool

    @staticmethod
    def create(catalog: Catalog, identifier: Identifier, schema: TableSchema, path: str, io: FileIO) -> NewLog:
        """Creates the log that the options of a schema describe, or adopts an empty one at its address.

        Raises InvalidOption, AlreadyExists for the log of another table, Unavailable.
        """
        options = dict(schema.options)
        adopts = Options(options).need(LOG_ADOPT)
        if adopts and Options(options).get_typed(LOG_TOPIC) is None:
            raise InvalidOption(f"option '{LOG_ADOPT.key}' = 'true' needs a topic: set '{LOG_TOPIC.key}' to its name")
        planned = replace(planned_log(schema, path, identifier), storage=io)
        try:
            check_log(planned, io)
        except Corrupt as why:
            raise InvalidOption(
                f"an embedded log ('{LOG_ADDRESS.key}') and files of the log's client lie in the table's directory, or "
                f"in one that the catalog option '{CATALOG_EXTERNAL_PATHS.key}' names: {why}"
            ) from None
        system, factory = LOG_SYSTEMS.create(planned.system), log_factory(planned.system)
        if factory.data_format:
            options.setdefault(DATA_FORMAT.key, factory.data_format)
        log_format(Options(options).need(DATA_FORMAT)).of_table(Options(options), planned.topic)
        if asked := other_writer(Options(options)):
            _check_others_write(options, f"option {asked}")
        is_named = (LOG_ADDRESS if factory.is_local else LOG_TOPIC).key in options
        existed = is_named and not adopts and _exists(planned)
        log = system.create(planned, adopts)
        if existed:
            _check_no_other_table(catalog, identifier, log)
        return NewLog(log, {**options, **stored_log_options(log, path)}, is_named)

    @property
    def is_local(self) -> bool:
        """True if the log is in files, not on a server."""
        return log_factory(self.location.system).is_local

    def drop_if_own(self) -> None:
        """Deletes a topic with a generated name, which no other table can have; another log stays."""
        if not self.is_local and not self.is_named:
            with contextlib.suppress(LakelogError):
                LOG_SYSTEMS.create(self.location.system).drop(self.location)


def _exists(planned: LogLocation) -> bool:
    """Returns whether there is a log at an address; True if it is one of another shape."""
    try:
        with contextlib.suppress(InvalidOption):
            LOG_SYSTEMS.create(planned.system).check(planned)
    except NotFound:
        return False
    return True


def _tables(catalog: Catalog, name: str) -> Iterator[Identifier]:
    databases: list[str] = []
    with contextlib.suppress(LakelogError):
        databases = catalog.list_databases()
    for database in databases:
        with contextlib.suppress(LakelogError):
            yield from [Identifier(database, table, name) for table in catalog.list_tables(database)]


def _check_no_other_table(catalog: Catalog, identifier: Identifier, log: LogLocation) -> None:
    """Raises AlreadyExists if another table of the catalog has this log: empty as it is, CREATE would adopt it.

    Reads the schemas of all tables; called only for a log that existed before. What cannot be read is passed over. Two
    CREATEs at the same moment do not see each other.
    """
    for name in _tables(catalog, identifier.catalog):
        log_id = ""
        with contextlib.suppress(LakelogError):
            log_id = log_id_in(catalog.load_table(name).schema)
        if log_id == log.log_id and name != identifier:
            is_local = log_factory(log.system).is_local
            key, value = (LOG_ADDRESS.key, log.address) if is_local else (LOG_TOPIC.key, log.topic)
            raise AlreadyExists(f"'{key}' = '{value}' is the log of table {name}: choose another '{key}'")


def _check_others_write(options: Mapping[str, str], asked: str) -> None:
    """Raises InvalidOption for a table whose log cannot be that of another producer, as an option asks."""
    if options.get(LOG_CONTENT.key, INPUT) != INPUT:
        raise InvalidOption(
            f"{asked} needs a log of rows, and '{LOG_CONTENT.key}' = '{CHANGES}': remove "
            f"'merge-engine', 'sequence.field' and '{LOG_CONTENT.key}'"
        )
    if options.get(LOG_PARTITIONS.key, options.get(BUCKET.key)) != "1":
        raise InvalidOption(
            f"option '{BUCKET.key}' = '{options.get(BUCKET.key, '-1')}' with {asked}: the rows of "
            "another producer are not in the partition of their bucket. Take a topic with one partition, and set "
            f"'{LOG_PARTITIONS.key}' = '1'"
        )

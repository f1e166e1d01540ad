"""Creates and drops a table with its log: both or neither."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    LakelogError,
    NotFound,
    Unavailable,
)
from lakelog.io.names import new_uuid
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import reader_for
from lakelog.merge.table_rules import check_writable, default_log_content
from lakelog.options.catalog import CATALOG_EXTERNAL_PATHS
from lakelog.options.compatibility import with_defaults
from lakelog.options.log import (
    CHANGES,
    DATA_FORMAT,
    DROP_WITH_TABLE,
    INPUT,
    LOG_ADDRESS,
    LOG_ADOPT,
    LOG_CONTENT,
    LOG_ENABLED,
    LOG_TOPIC,
)
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.options.table import BUCKET, TABLE_ID
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.column_options import check_column_options
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import (
    canonical_options,
    check_log,
    check_log_partitions,
    log_id_in,
    planned_log,
    stored_log_options,
)
from lakelog.table.model.log_state import FOLLOWER


def create_table(
    catalog: Catalog, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False
) -> TableLocation:
    """Creates a table with a unique identity, its log first, so that no table is visible without its log.

    1 check options and names · 2 create the log (a topic with its partitions), or adopt the empty one at its
    address · 3 create the schema file if absent; if that fails, drop the log again if no other CREATE can have adopted
    it. Raises InvalidOption, InvalidSchema, AlreadyExists, Unavailable (for the broker), and leaves at most an empty
    log, which the next CREATE adopts; CommitConflict if its directory was moved meanwhile; CommitUnknown if the table
    may exist or not.
    """
    # 1
    options = canonical_options(schema.options, "table")
    if schema.primary_keys and BUCKET.key not in options:
        options[BUCKET.key] = "1"
    has_log = Options(options).need(LOG_ENABLED)
    options = with_defaults(options, has_log)
    if has_log and LOG_CONTENT.key not in options and default_log_content(Options(options)) != INPUT:
        options[LOG_CONTENT.key] = default_log_content(Options(options))
    check_writable(options)
    options[TABLE_ID] = new_uuid()
    schema = replace(schema, options=options).with_padded_keys
    options = dict(schema.options)
    check_column_options(schema)
    with contextlib.suppress(NotFound):
        location = catalog.load_table(identifier)
        if if_not_exists:
            return location
        raise AlreadyExists(f"table {identifier} exists: choose another name, or write CREATE TABLE IF NOT EXISTS")
    check_log_partitions(schema)
    if not has_log:
        return catalog.create_table(identifier, schema, if_not_exists)
    # 2
    adopts = Options(options).need(LOG_ADOPT)
    if adopts:
        _check_adoption(options)
    path = catalog.table_path(identifier)
    io = catalog.table_io(identifier)
    wanted = replace(planned_log(schema, path, identifier), storage=io)
    try:
        check_log(wanted, io)
    except Corrupt as why:
        raise InvalidOption(
            f"an embedded log ('{LOG_ADDRESS.key}') and files of the log's client lie in the table's directory, or in "
            f"one that the catalog option '{CATALOG_EXTERNAL_PATHS.key}' names: {why}"
        ) from None
    system, factory = LOG_SYSTEMS.create(wanted.system), log_factory(wanted.system)
    if factory.data_format:
        options.setdefault(DATA_FORMAT.key, factory.data_format)
    is_local = factory.is_local
    is_named = (LOG_ADDRESS if is_local else LOG_TOPIC).key in options
    existed = is_named and not adopts and _exists(wanted)
    log = system.create(wanted, adopts)
    if existed:
        _check_no_other_table(catalog, identifier, log)
    # 3
    try:
        made = catalog.create_table(
            identifier, replace(schema, options={**options, **stored_log_options(log, path)}), False
        )
    except (CommitUnknown, Unavailable):
        # The table may exist, or appear later, and needs its log.
        with contextlib.suppress(NotFound, Unavailable):
            found = catalog.load_table(identifier)
            if found.schema.options.get(TABLE_ID) == options[TABLE_ID]:
                return found
        raise
    except LakelogError as failure:
        # A concurrent CREATE of this table may have adopted the log; only a topic with a generated name is surely ours.
        if not is_local and LOG_TOPIC.key not in options:
            with contextlib.suppress(LakelogError):
                system.drop(log)
        if isinstance(failure, AlreadyExists) and if_not_exists:
            return catalog.load_table(identifier)
        raise
    if is_local:
        _check_log_exists(catalog, made, log)
    if adopts:  # the follower does the same if this process ends here
        DynamicTable(made).registered.register(FOLLOWER, reader_for(log).first_offsets())
    return made


def _exists(log: LogLocation) -> bool:
    """Returns whether there is a log at an address; True if it is one of another shape."""
    try:
        with contextlib.suppress(InvalidOption):
            LOG_SYSTEMS.create(log.system).check(log)
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
        found = ""
        with contextlib.suppress(LakelogError):
            found = log_id_in(catalog.load_table(name).schema)
        if found == log.log_id and name != identifier:
            is_local = log_factory(log.system).is_local
            key, value = (LOG_ADDRESS.key, log.address) if is_local else (LOG_TOPIC.key, log.topic)
            raise AlreadyExists(f"'{key}' = '{value}' is the log of table {name}: choose another '{key}'")


def _check_log_exists(catalog: Catalog, made: TableLocation, log: LogLocation) -> None:
    """Drops a table that was created without its log, and raises CommitConflict.

    A concurrent RENAME or DROP may have moved the directory with the log away before the schema was in it, and another
    CREATE may have made a log in its place.
    """
    try:
        LOG_SYSTEMS.create(log.system).check(log)
    except NotFound:
        with contextlib.suppress(NotFound):
            if catalog.load_table(made.identifier).schema.options.get(TABLE_ID) == made.schema.options[TABLE_ID]:
                catalog.drop_table(made.identifier, if_exists=True)
                raise CommitConflict(
                    f"the log of table {made.identifier} was moved away while the table was created: try again"
                ) from None
        # else the table was renamed with its log, or dropped


def _check_adoption(options: Mapping[str, str]) -> None:
    """Raises InvalidOption for a table that cannot take a topic with records."""
    given = Options(options)
    if given.get_typed(LOG_TOPIC) is None:
        raise InvalidOption(f"option '{LOG_ADOPT.key}' = 'true' needs a topic: set '{LOG_TOPIC.key}' to its name")
    if options.get(LOG_CONTENT.key, INPUT) != INPUT:
        raise InvalidOption(
            f"option '{LOG_ADOPT.key}' = 'true' needs a log of rows, and '{LOG_CONTENT.key}' = '{CHANGES}': remove "
            f"'merge-engine', 'sequence.field' and '{LOG_CONTENT.key}'"
        )
    if options.get(LOG_PARTITIONS.key, options.get(BUCKET.key)) != "1":
        raise InvalidOption(
            f"option '{BUCKET.key}' = '{options.get(BUCKET.key, '-1')}' with '{LOG_ADOPT.key}' = 'true': the rows of "
            "another producer are not in the partition of their bucket. Take a topic with one partition, and set "
            f"'{LOG_PARTITIONS.key}' = '1'"
        )


def drop_table(catalog: Catalog, identifier: Identifier, if_exists: bool = False, purge: bool = False) -> None:
    """Drops a table, with ``log-store.drop-with-table`` or PURGE its topic, too.

    A local log goes with the table's directory; a file outside of it may be the log of another table. An adopted topic
    belongs to its producer and stays. If a concurrent RENAME moves the table away, its topic stays.

    Raises NotFound, and Unavailable for a topic whose server does not answer; the table then stays.
    """
    try:
        table = DynamicTable(catalog.load_table(identifier))
        log = table.log
        goes = log is not None and not log_factory(log.system).is_local and not table.options.need(LOG_ADOPT)
        goes = goes and (purge or table.options.need(DROP_WITH_TABLE))
        if log is not None and goes:
            with contextlib.suppress(NotFound):
                LOG_SYSTEMS.create(log.system).check(log)
        catalog.drop_table(identifier)
    except NotFound:
        if if_exists:
            return
        raise
    if log is not None and goes:
        LOG_SYSTEMS.create(log.system).drop(log)

"""Creates and drops a table with its log: both or neither."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    LakelogError,
    NotFound,
    Unavailable,
)
from lakelog.io.names import new_uuid
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import reader_for
from lakelog.logstore.formats import other_writer
from lakelog.merge.table_rules import check_writable
from lakelog.options.constraints import has_constraints
from lakelog.options.features import CHECKS, FEATURES_KEY, PADDED, TableFeatures
from lakelog.options.log import (
    DROP_WITH_TABLE,
    LOG_ADOPT,
    LOG_ENABLED,
)
from lakelog.options.option import Options
from lakelog.options.table import BUCKET, TABLE_ID
from lakelog.paimon.schema.schema import PADDED_KEYS, TableSchema
from lakelog.table.column_options import check_column_options
from lakelog.table.model.constraints import check_constraints
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import (
    canonical_options,
    check_log_partitions,
)
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.new_log import NewLog, with_log_defaults


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
    options = with_log_defaults(options)
    check_writable(options)
    options[TABLE_ID] = new_uuid()
    schema = replace(schema, options=options).with_padded_keys
    if PADDED_KEYS in schema.options:
        features = TableFeatures.of(schema.options).with_feature(PADDED)
        schema = replace(schema, options={**schema.options, FEATURES_KEY: features.to_text()})
    if has_constraints(schema.options):
        features = TableFeatures.of(schema.options).with_feature(CHECKS)
        schema = replace(schema, options={**schema.options, FEATURES_KEY: features.to_text()})
    options = dict(schema.options)
    check_column_options(schema)
    check_constraints(schema)
    with contextlib.suppress(NotFound):
        location = catalog.load_table(identifier)
        if if_not_exists:
            return location
        raise AlreadyExists(f"table {identifier} exists: choose another name, or write CREATE TABLE IF NOT EXISTS")
    check_log_partitions(schema)
    if not Options(options).need(LOG_ENABLED):
        return catalog.create_table(identifier, schema, if_not_exists)
    # 2
    new = NewLog.create(catalog, identifier, schema, catalog.table_path(identifier), catalog.table_io(identifier))
    # 3
    try:
        made = catalog.create_table(identifier, replace(schema, options=new.options), False)
    except (CommitUnknown, Unavailable):
        # The table may exist, or appear later, and needs its log.
        with contextlib.suppress(NotFound, Unavailable):
            existing = catalog.load_table(identifier)
            if existing.schema.options.get(TABLE_ID) == options[TABLE_ID]:
                return existing
        raise
    except LakelogError as failure:
        new.drop_if_own()
        if isinstance(failure, AlreadyExists) and if_not_exists:
            return catalog.load_table(identifier)
        raise
    if new.is_local:
        _check_log_exists(catalog, made, new.location)
    if other_writer(Options(options)):  # the follower does the same if this process ends here
        DynamicTable(made).registered.register(FOLLOWER, reader_for(new.location).first_offsets())
    return made


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

"""Changes and renames a table that may have a log; refuses changes that readers of the log cannot follow."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidOption,
    InvalidSchema,
    LakelogError,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.filestore.metadata.schemas import can_read_as
from lakelog.logstore import LOG_SYSTEMS, log_factory, log_system_at
from lakelog.logstore.formats import other_writer
from lakelog.merge.table_rules import check_writable
from lakelog.options.compatibility import DEFAULTS
from lakelog.options.features import FEATURES_KEY
from lakelog.options.log import (
    LOG_ADDRESS,
    LOG_ENABLED,
    LOG_OPTIONS,
    LOG_RETENTION,
    LOG_TYPE,
    may_be_secret,
    names_log_server,
)
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.options.secrets import looks_secret
from lakelog.options.table import BUCKET
from lakelog.paimon.schema.changes import RemoveOption, SchemaChange, SetOption
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import type_keyword
from lakelog.table.added_constraints import changed_features, check_existing_rows, features_after
from lakelog.table.column_options import check_column_options
from lakelog.table.log.record_schemas import changed_meanings
from lakelog.table.log_switch import (
    create_added_log,
    drop_ended_log,
    end_log,
    options_after,
    settle_log,
    switching,
)
from lakelog.table.model.constraints import check_constraints
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import (
    ALL_OPTIONS,
    by_canonical_key,
    check_log_partitions,
    check_no_plain_secrets,
    check_spelled_once,
    log_generation,
    log_partitions,
)
from lakelog.table.views.rules import check_view_change

_KEPT_BY_LAKELOG = "lakelog."
_FIXED = (DEFAULTS.key, LOG_PARTITIONS.key, *(o.key for o in LOG_OPTIONS.options if o.immutable))


def alter_table(catalog: Catalog, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
    """Applies all these changes as one new schema, or none of them.

    Options may have any of their names. In addition to the format's rules, the result must be a table that lakelog
    writes, and its log must be able to follow (``check_log_follows``). A new ``log-store.retention`` is set on the log
    before the schema, so that it is in both or refused. A change of ``log-store.enabled`` adds or removes the log, with
    the other options of the log in the same call; the rows go on (RFC 27). Raises NotFound, InvalidSchema,
    InvalidOption, UnsupportedFeature, CommitConflict, CommitUnknown, Unavailable.
    """
    check_spelled_once([(change.key, change.value) for change in changes if isinstance(change, SetOption)])
    location, schema_changes = catalog.load_table(identifier), [_canonical(c) for c in changes]
    has_log = Options(location.schema.options).need(LOG_ENABLED)
    options = options_after(location.schema.options, schema_changes)
    schema_changes += changed_features(location.schema.options, options)
    check_existing_rows(location, options)
    if Options(options).need(LOG_ENABLED) == has_log:
        others = [
            c for c in schema_changes if not (isinstance(c, SetOption | RemoveOption) and c.key == LOG_ENABLED.key)
        ]
        if len(others) < len(schema_changes):
            settle_log(DynamicTable(location))  # the statement that added or removed it may have ended half-way
            if not others:
                return location
        return _altered(catalog, location, with_log_partitions(others, location.schema))
    with switching(DynamicTable(location)):
        location = catalog.load_table(identifier)
        if Options(location.schema.options).need(LOG_ENABLED) != has_log:
            return alter_table(catalog, identifier, changes)
        return (_without_log if has_log else _with_log)(catalog, location, schema_changes)


def _with_log(catalog: Catalog, location: TableLocation, schema_changes: Sequence[SchemaChange]) -> TableLocation:
    """Adds a log. 1 create the log · 2 create the schema if absent · 3 make the snapshot with which the log begins.

    A crash before step 2 leaves a log that nobody knows, and one before step 3 a log that readers refuse
    (``check_begun``) until the next epoch of any writer, or this statement once more, makes the snapshot.
    """
    options = options_after(location.schema.options, schema_changes)
    # 1
    new = create_added_log(catalog, location, options)
    added = [SetOption(key, value) for key, value in new.options.items() if options.get(key) != value]
    # 2
    try:
        altered = _altered(catalog, location, [*schema_changes, *added], switches_log=True)
    except (CommitUnknown, Unavailable):
        raise  # the table may have the log
    except LakelogError:
        new.drop_if_own()
        raise
    # 3
    settle_log(DynamicTable(altered))
    return altered


def _without_log(catalog: Catalog, location: TableLocation, schema_changes: Sequence[SchemaChange]) -> TableLocation:
    """Removes the log. 1 bring its last rows to the files · 2 create the schema if absent · 3 make the snapshot with
    which the log has ended · 4 delete it. A crash before step 4 leaves a log that nobody reads.
    """
    table = DynamicTable(location)
    # 1
    ends = end_log(table)
    # 2
    removed = {change.key for change in ends if isinstance(change, RemoveOption)} | {LOG_ENABLED.key}
    others = [c for c in schema_changes if not (isinstance(c, SetOption | RemoveOption) and c.key in removed)]
    altered = _altered(catalog, location, [*others, *ends], switches_log=True)
    # 3
    settle_log(DynamicTable(altered))
    # 4
    drop_ended_log(table)
    return altered


def _altered(
    catalog: Catalog, location: TableLocation, schema_changes: Sequence[SchemaChange], switches_log: bool = False
) -> TableLocation:
    """The table with a new schema; ``switches_log``: its log is added or removed by these changes."""
    identifier = location.identifier
    keys = {change.key for change in schema_changes if isinstance(change, SetOption)}
    passed: list[TableSchema] = []

    def check(before: TableSchema, after: TableSchema) -> None:
        check_writable(after.options)
        check_view_change(before, after)
        check_column_options(after)
        check_constraints(after, before)
        if not switches_log:
            _check_log_options(before, after)
        elif log_generation(before) != log_generation(location.schema):
            raise CommitConflict(f"another statement has added or removed the log of table {identifier}: try again")
        if not switches_log or Options(after.options).need(LOG_ENABLED):
            _check_secrets(before, after, keys)
            check_no_plain_secrets(after.options, keys)
        former = [*former_schemas(replace(location, schema=before)), before]
        if Options(before.options).need(LOG_ENABLED) and not switches_log:
            check_log_follows(after, former)
        if Options(after.options).need(LOG_ENABLED):
            check_log_partitions(after)
            _ = DynamicTable(replace(location, schema=after)).log  # refuses forbidden client options
        check_readable_types(after, former)
        if not switches_log and before.options.get(LOG_RETENTION.key) != after.options.get(LOG_RETENTION.key):
            passed.append(before)
            _notify_log(replace(location, schema=after))

    try:
        return catalog.alter_table(identifier, schema_changes, check)
    except (CommitUnknown, CommitConflict):
        if passed:
            with contextlib.suppress(LakelogError):
                _notify_log(catalog.load_table(identifier))
        raise


def _notify_log(location: TableLocation) -> None:
    """Sets the retention of a table's log from the schema."""
    log = DynamicTable(location).log
    if log is not None:
        LOG_SYSTEMS.create(log.system).set_retention(log)


def rename_table(catalog: Catalog, identifier: Identifier, new: Identifier) -> None:
    """Renames a table; its log keeps its name. Stop its writers first, because they use the old path."""
    catalog.rename_table(identifier, new)


def former_schemas(location: TableLocation) -> list[TableSchema]:
    """The earlier schemas of the table that still exist."""
    return list(DynamicTable(location).store.schemas.own(range(location.schema.id)))


def check_readable_types(after: TableSchema, former: Sequence[TableSchema]) -> None:
    """Checks that files of all former schemas can be read with the new one.

    The format checks the last type only: after INT → STRING → DATE it could not read the oldest files. Raises
    UnsupportedFeature naming column and types.
    """
    now = {f.id: f for f in after.fields}
    for schema in reversed(former):
        for old in schema.fields:
            new = now.get(old.id)
            if new is not None and not can_read_as(old.type, new.type):
                raise UnsupportedFeature(
                    f"column '{new.name}' was {type_keyword(old.type)} in schema {schema.id}, and lakelog cannot read "
                    f"those files as {type_keyword(new.type)}: add a new column of the other type"
                )


def check_log_follows(after: TableSchema, former: Sequence[TableSchema]) -> None:
    """Checks that the log of a table can follow a change. ``former`` are the earlier schemas, the oldest first.

    Raises InvalidOption for another number of log partitions, which never changes, and for a change between a fixed
    number of buckets and none: decided epochs and open writers place their rows by the former. The records of other
    producers have no schema id (``log-store.adopt``): raises InvalidSchema for a change of what a name in them means.
    """
    if (former[-1].num_buckets < 1) != (after.num_buckets < 1):
        raise _refused_option(
            BUCKET.key,
            str(after.num_buckets),
            "rows of its log that are in no snapshot yet may be placed by the former",
        )
    if log_partitions(former[-1]) != log_partitions(after):
        raise _refused_option(
            BUCKET.key,
            str(after.num_buckets),
            f"its log would get another number of partitions ('{LOG_PARTITIONS.key}')",
        )
    if other_writer(Options(after.options)):
        for column, done, why in changed_meanings(after, former):
            raise InvalidSchema(
                f"column '{column}' cannot be {done} in a table with the log of another producer: {why}; add a column "
                "with an unused name, or create a new table and copy the rows"
            )


def with_log_partitions(changes: Sequence[SchemaChange], schema: TableSchema) -> list[SchemaChange]:
    """The changes, and before them the number of log partitions if they set ``bucket`` of a table with a log.

    It is that of CREATE TABLE, so two ALTER TABLE at once store the same number (RFC 18).
    """
    options = Options(schema.options)
    sets_buckets = any(
        isinstance(c, SetOption) and c.key == BUCKET.key and c.value != options.get(c.key) for c in changes
    )
    if not sets_buckets or not options.need(LOG_ENABLED) or options.get_typed(LOG_PARTITIONS) is not None:
        return list(changes)
    return [SetOption(LOG_PARTITIONS.key, str(log_partitions(schema))), *changes]


def _canonical(change: SchemaChange) -> SchemaChange:
    if isinstance(change, SetOption):
        ((key, value),) = ALL_OPTIONS.canonical({change.key: change.value}, "table").items()
        return SetOption(key, value)
    if isinstance(change, RemoveOption):
        return RemoveOption(ALL_OPTIONS.canonical_key(change.key))
    return change


def _check_log_options(before: TableSchema, after: TableSchema) -> None:
    """Checks that the options for the location and contents of the log do not change, with or without snapshots."""
    for key in {*before.options, *after.options}:
        old, new = before.options.get(key), after.options.get(key)
        if old == new:
            continue
        if key == FEATURES_KEY and new == features_after(before.options, after.options):
            continue
        if key.startswith(_KEPT_BY_LAKELOG) and key != DEFAULTS.key:
            raise _refused_option(key, new, "it is reserved for lakelog")
        if key == LOG_PARTITIONS.key and old is None and new == str(log_partitions(before)):
            continue
        moved = key == LOG_ADDRESS.key and log_factory(before.options.get(LOG_TYPE.key) or log_system_at(None)).is_local
        if key in _FIXED or moved:
            why = (
                f"the rows of its log depend on it. Remove the log ('{LOG_ENABLED.key}' = 'false'), then add one with "
                "this option"
                if Options(before.options).need(LOG_ENABLED)
                else f"it has no log. Set '{LOG_ENABLED.key}' = 'true' in the same statement to add one"
            )
            raise _refused_option(key, new, why)


def _check_secrets(before: TableSchema, after: TableSchema, keys: Collection[str]) -> None:
    """Checks that secrets are only sent to the current address. Raises InvalidOption.

    A user who changes the address must supply the secrets again.
    """
    old, new = by_canonical_key(before.options), by_canonical_key(after.options)
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    moved = next((key for key in changed if names_log_server(key) and not (looks_secret(key) and key in new)), None)
    if moved is None:
        return
    kept = [key for key in sorted(new) if key not in keys and may_be_secret(key)]
    secret = next((key for key in kept if looks_secret(key) or not names_log_server(key)), None)
    if secret is not None:
        raise InvalidOption(
            f"option '{moved}' cannot be changed alone: '{secret}' would be sent to another address. Give '{secret}' "
            f"again in the same statement, or RESET it"
        )


def _refused_option(key: str, value: str | None, why: str) -> InvalidOption:
    done = "reset" if value is None else f"set to '{value}'"
    return InvalidOption(f"option '{key}' cannot be {done} for this table: {why}")

"""Restore of a table from a backup: as a new table, or as the newest state of the table itself (RFC 26)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    NotFound,
    UnsupportedFeature,
)
from lakelog.io.clock import now_ms
from lakelog.logstore import log_factory
from lakelog.options.log import LOG_ADDRESS, LOG_ADOPT, LOG_TOPIC, LOG_TYPE
from lakelog.options.table import TABLE_ID, TABLE_OPTIONS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import read_as
from lakelog.table.copies.backup_store import BackupPoint, BackupStore
from lakelog.table.copies.file_copies import FileCopies
from lakelog.table.create import create_table, drop_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import LOG_GENERATION, LOG_ID, LOG_MACHINE, placing_options
from lakelog.table.write.restore import restore_copied, roll_back

RESTORED_FROM: Final = "lakelog.restored-from"
"""The key in a schema's options under which a restored table names the identity and the point that it has."""
_OF_LOG: Final = (LOG_TYPE.key, LOG_TOPIC.key, LOG_ADDRESS.key, LOG_ID, LOG_MACHINE)


def pick_point(
    store: BackupStore, snapshot_id: int | None = None, tag: str | None = None, timestamp_ms: int | None = None
) -> BackupPoint:
    """The point of a snapshot or of a tag, the newest one committed at a time or before, or simply the newest.

    Raises InvalidRequest for two of these, NotFound, which lists the points.
    """
    if sum(choice is not None for choice in (snapshot_id, tag, timestamp_ms)) > 1:
        raise InvalidRequest("restore one of: a snapshot id, a tag, a timestamp in milliseconds")
    store.table()
    points = store.points()
    fitting = [
        point
        for point in points
        if (snapshot_id is None or point.snapshot == snapshot_id)
        and (tag is None or tag in point.tags)
        and (timestamp_ms is None or point.time_ms <= timestamp_ms)
    ]
    if not fitting:
        has = ", ".join(f"snapshot {point.snapshot}" for point in points[-5:]) or "none"
        raise NotFound(f"the backup in '{store}' has no such point; its newest points: {has}")
    return max(fitting, key=lambda point: (point.time_ms, point.number))


def restore_new(
    catalog: Catalog, identifier: Identifier, store: BackupStore, point: BackupPoint, options: Mapping[str, str]
) -> DynamicTable:
    """Makes a new table with the rows of a point; returns it.

    It has an identity and an empty log of its own, so writers, readers and checkpoints of the backed-up table are
    refused (RFC 10). ``options`` are table options that replace those of the backup.

    1 check that the files are there · 2 create the table and its log, and the later schemas · 3 copy the files ·
    4 commit them as one snapshot. If it fails, the table is dropped again. After a crash the table is empty, and the
    same call continues. Raises AlreadyExists, Corrupt for a damaged backup, UnsupportedFeature for a catalog whose
    server makes the snapshots, and the errors of CREATE TABLE.
    """
    if catalog.commits_by_server:
        raise UnsupportedFeature(
            f"table {identifier} cannot be restored: its catalog server makes the snapshots. Restore it into a "
            "warehouse of files, and copy its rows with 'lakelog migrate'"
        )
    _check_options(options)
    # 1
    _check_files(store, point)
    # 2
    source = f"{store.table().identity}@{point.number}"
    schemas = _with_newest_log(_schemas(store, point))
    first = schemas[0]
    first_options = {**without_log(first), **options, RESTORED_FROM: source}
    catalog.ensure_database(identifier.database)
    table, is_new = _create(catalog, identifier, replace(first, options=first_options), source)
    try:
        table = _with_schemas(table, schemas[1:], options)
        if point.state is not None:
            # 3, 4
            restore_copied(table, _copied(table, store, point, point.state))
            _delete_unused(table, point)
    except Exception:
        if is_new:
            with contextlib.suppress(LakelogError):
                drop_table(catalog, identifier, if_exists=True, purge=True)
        raise
    return table


def restore_into(table: DynamicTable, store: BackupStore, point: BackupPoint, files_only: bool) -> Snapshot:
    """Makes a point the newest state of the table that was backed up; returns its snapshot.

    The identity stays, so writers, readers and checkpoints go on, and the log gets the difference, as after a rollback
    (RFC 23). 1 copy the files that have expired since · 2 name the state with a tag · 3 roll back to it · 4 delete the
    tag. A crash leaves a tag, which keeps files, and the next restore of the point deletes it. Raises InvalidRequest
    for another table, and the errors of a rollback.
    """
    source = store.table()
    if source.identity != table.identity.text:
        raise InvalidRequest(
            f"table {table.name} is not the one in '{store}' ({source.table}), or was created again since: restore the "
            "backup as a new table"
        )
    if point.state is None:
        raise InvalidRequest(f"point {point.number} of '{store}' has no snapshot: truncate the table instead")
    table = table.with_newest_schema()
    _check_files(store, point)
    # 1, 2
    tag = f"lakelog-restore-{point.number}"
    state = _copied(table, store, point, point.state)
    table.store.tags.import_state(tag, state)
    try:
        # 3
        return roll_back(table, tag=tag, files_only=files_only)
    finally:
        # 4
        with contextlib.suppress(NotFound):
            table.store.tags.delete(tag)


def _copied(table: DynamicTable, store: BackupStore, point: BackupPoint, state: Snapshot) -> Snapshot:
    """Copies the files of a point into a table; returns the point's snapshot as one of this table."""
    names = [name for name in point.files if not name.startswith("schema/")]
    FileCopies(store.io, store.files, table.io, table.path).copy(names, point.files)
    properties = {**(state.properties or {}), **point.properties}
    table_id = table.identity.id
    properties |= {} if table_id is None else {TABLE_ID: table_id}
    return replace(state, properties=properties)


def _check_options(options: Mapping[str, str]) -> None:
    """Raises InvalidOption for one by which the copied files were written."""
    for option in TABLE_OPTIONS.options:
        if option.immutable and option.key in options:
            raise InvalidOption(
                f"option '{option.key}' cannot change in a restore: the copied files were written with it"
            )


def _delete_unused(table: DynamicTable, point: BackupPoint) -> None:
    """Deletes copied metadata that the new snapshot has under other names; orphan cleaning would find the rest."""
    with contextlib.suppress(LakelogError):
        references = table.store.references
        names = {f"{table.path}/{name}" for name in point.files if name.startswith(("manifest/", "index/"))}
        for path in names - references.used_among(names, references.branch_roots):
            table.io.delete(path)


def _check_files(store: BackupStore, point: BackupPoint) -> None:
    """Raises Corrupt if a file of a point is missing or has another size."""
    for name, copied in point.files.items():
        try:
            size = store.io.size(f"{store.files}/{name}")
        except NotFound:
            size = -1
        if size != copied.size:
            has = "is missing" if size < 0 else f"has {size:,} bytes instead of {copied.size:,}"
            raise Corrupt(f"'{store}/files/{name}' {has}: point {point.number} is damaged, restore another one")


def _schemas(store: BackupStore, point: BackupPoint) -> list[TableSchema]:
    names = sorted(
        (name for name in point.files if name.startswith("schema/")), key=lambda n: int(n.rpartition("-")[2])
    )
    return [read_as(store.io, f"{store.files}/{name}", TableSchema.from_json) for name in names]


def _with_newest_log(schemas: list[TableSchema]) -> list[TableSchema]:
    """The schemas with the log of the last one, which ALTER TABLE may have added or removed (RFC 27)."""
    newest = {key: schemas[-1].options[key] for key in placing_options(schemas[-1])}
    others = [{k: v for k, v in s.options.items() if k not in placing_options(s)} for s in schemas]
    return [replace(schema, options=other | newest) for schema, other in zip(schemas, others, strict=True)]


def without_log(schema: TableSchema) -> dict[str, str]:
    """The options of a schema without its identity, and without what locates its log."""
    options = dict(schema.options)
    is_local = LOG_TYPE.key in options and log_factory(options[LOG_TYPE.key]).is_local
    keys = (TABLE_ID, LOG_ID, LOG_MACHINE, LOG_GENERATION, LOG_TOPIC.key, LOG_ADOPT.key)
    for key in (*keys, *([LOG_ADDRESS.key] if is_local else [])):
        options.pop(key, None)
    return options


def _create(catalog: Catalog, identifier: Identifier, schema: TableSchema, source: str) -> tuple[DynamicTable, bool]:
    """The new table, or the one that an interrupted restore of this point has left, and whether it is new."""
    try:
        return DynamicTable(create_table(catalog, identifier, schema)), True
    except AlreadyExists:
        table = DynamicTable(catalog.load_table(identifier))
        is_empty = table.store.latest_snapshot() is None and not table.decided.all() and not table.registered.writers()
        if is_empty and table.schema.options.get(RESTORED_FROM) == source:
            return table, False
        raise AlreadyExists(
            f"table {identifier} exists: choose another name, drop it first, or restore into the table that was backed "
            "up"
        ) from None


def _with_schemas(table: DynamicTable, schemas: list[TableSchema], overrides: Mapping[str, str]) -> DynamicTable:
    """The table with the later schemas of the backup, which have its identity and its log. Raises CommitConflict."""
    first = replace(table.store.paths, schema=table.schema)
    oldest = read_as(table.io, first.schema_file(min(table.store.branches.schema_ids("main"))), TableSchema.from_json)
    identity = {key: oldest.options[key] for key in (TABLE_ID, RESTORED_FROM, *_OF_LOG) if key in oldest.options}
    newest = oldest
    for schema in schemas:
        options = {**without_log(schema), **overrides, **identity}
        newest = replace(schema, options=options, time_millis=now_ms())
        path = first.schema_file(schema.id)
        if not table.io.create(path, newest.to_json()):
            there = read_as(table.io, path, TableSchema.from_json)
            if replace(there, time_millis=newest.time_millis) != newest:
                raise CommitConflict(f"table {table.name} was altered while it was restored: drop it and restore again")
            newest = there
    return table.with_schema(newest)

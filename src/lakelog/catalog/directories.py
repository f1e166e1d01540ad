"""Databases and tables as directories: ``<warehouse>/<database>.db/<table>`` (format sheet 1)."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from lakelog.catalog.base import (
    DEFAULT_DATABASE,
    Catalog,
    CheckChange,
    Identifier,
    TableLocation,
    check_name,
    check_new_name,
)
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    LakelogError,
    NotFound,
    TableReplaced,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.options.log import LOG_ADDRESS, LOG_TYPE
from lakelog.options.table import TABLE_ID, is_of_another_table
from lakelog.paimon.schema.changes import SchemaChange, apply_changes
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import read_as

_SUFFIX = ".db"
_SCHEMA_FILE = re.compile(r"schema-(\d+)")
_SNAPSHOT_FILE = re.compile(r"snapshot-\d+")
_DROPPED = re.compile(r"\.dropped-([0-9a-f]+)-.+")
"""The name of a directory that DROP has moved away: digest of the table's schema, and a random part."""
_ALTER_TRIES = 100
"""Maximum attempts of an ALTER that loses against concurrent ones."""
_ASKED_AGAIN = 3
"""Maximum attempts to create a schema file while the outcome is unknown."""


class Directories(Catalog):
    """Databases as directories that end in ``.db``, tables as directories in them with a schema."""

    def __init__(self, warehouse: str, io: FileIO) -> None:
        self.warehouse = io.absolute(warehouse)
        self._io = io

    def list_databases(self) -> list[str]:
        names = (s.name for s in self._io.list(self.warehouse) if s.is_dir)
        return sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX) and n != _SUFFIX)

    def add_database(self, name: str) -> bool:
        path = self.database_path(name)
        if self._io.exists(path):
            return False
        self._io.makedirs(path)
        return True

    def remove_database(self, name: str, cascade: bool) -> bool:
        self._io.delete_dir(self.database_path(name))
        return True

    def find_tables(self, database: str) -> list[str] | None:
        path = self.database_path(database)
        if not self._io.exists(path):
            return None
        directories = (s for s in self._io.list(path) if s.is_dir and not _DROPPED.fullmatch(s.name))
        return [s.name for s in directories if self._may_be_table(s.path)]

    def table_path(self, identifier: Identifier) -> str:
        check_name("table", identifier.table)
        return f"{self.database_path(identifier.database)}/{identifier.table}"

    def table_io(self, identifier: Identifier) -> FileIO:
        return confined(self._io, self.table_path(identifier))

    def load_table(self, identifier: Identifier) -> TableLocation:
        path = self.table_path(identifier)
        ids = self._schema_ids(path)
        if not ids:
            raise self._no_table(identifier)
        return TableLocation(identifier, path, self._newest_schema(path, ids), self._io.within(path))

    def _newest_schema(self, path: str, ids: Sequence[int]) -> TableSchema:
        """The newest schema of the table in a directory, among these ids in ascending order.

        A suspended ALTER of an earlier table may have created its schema here: it names that table, and is skipped.
        """
        first: TableSchema | None = None
        for schema_id in reversed(ids):
            schema = self._read_schema(path, schema_id)
            if TABLE_ID not in schema.options or schema_id == ids[0]:
                break
            first = first or self._read_schema(path, ids[0])
            if not is_of_another_table(schema.options, first.options):
                break
        return schema

    def _read_schema(self, path: str, schema_id: int) -> TableSchema:
        return read_as(confined(self._io, path), f"{path}/schema/schema-{schema_id}", TableSchema.from_json)

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False) -> TableLocation:
        check_new_name("table", identifier.table)
        path = self.table_path(identifier)
        if identifier.database != DEFAULT_DATABASE and not self._io.exists(self.database_path(identifier.database)):
            raise self._no_database(identifier.database)
        # a concurrent RENAME or DROP may take the directory along, and the log that was made in it before
        has_log_inside = LOG_TYPE.key in schema.options and LOG_ADDRESS.key not in schema.options
        io = self._io.within(path) if has_log_inside else self._io
        try:
            # the listing finds a table whose first schema was removed; the create decides between concurrent clients
            if not self._schema_ids(path) and io.create(f"{path}/schema/schema-{schema.id}", schema.to_json()):
                return TableLocation(identifier, path, schema, self._io.within(path))
        except TableReplaced:
            raise CommitConflict(f"'{path}' was moved while table {identifier} was created: try again") from None
        if not if_not_exists:
            raise AlreadyExists(f"table {identifier} exists: choose another name, or write IF NOT EXISTS")
        return self.load_table(identifier)

    def remove_table(self, identifier: Identifier) -> None:
        """Removes a table: renames its directory, then deletes it. Readers never find a part of it.

        Storage that cannot move a directory is deleted in place, file by file.
        """
        path, database = self.table_path(identifier), self.database_path(identifier.database)
        self._delete_dropped(database)
        if not self._schema_ids(path):
            raise self._no_table(identifier)
        if self._io.real(path) != f"{self._io.real(database)}/{identifier.table}":
            raise InvalidRequest(f"'{path}' is a symbolic link, and DROP does not follow links: remove the link itself")
        try:
            before = self.load_table(identifier)
            away = f"{database}/.dropped-{_digest(before.schema)}-{new_uuid()}"
            self._move(before, away, drops=True)
        except UnsupportedFeature:
            self._delete_in_place(path)
        else:
            self._delete_in_place(away)

    def _delete_in_place(self, path: str) -> None:
        # snapshots first, so that no reader finds one without its files; the schema last, so that an interrupted
        # drop can be repeated, and a new table never finds files of the old one; the newest schema tells whose it is
        self._io.delete_dir(f"{path}/snapshot")
        for status in self._io.list(path):
            if status.is_dir and status.name != "schema":
                self._io.delete_dir(status.path)
        for schema_id in self._schema_ids(path):
            self._io.delete(f"{path}/schema/schema-{schema_id}")
        self._io.delete_dir(path)

    def _delete_dropped(self, database: str) -> None:
        """Deletes the directory that an interrupted DROP has moved, unless it is another table (see ``_move``)."""
        for status in self._io.list(database):
            match = _DROPPED.fullmatch(status.name) if status.is_dir else None
            if match is None:
                continue
            with contextlib.suppress(LakelogError):
                ids = self._schema_ids(status.path)
                if not ids or _digest(self._newest_schema(status.path, ids)) == match[1]:
                    self._delete_in_place(status.path)

    def _move(self, before: TableLocation, target: str, drops: bool = False) -> None:
        """Moves the directory of a loaded table. Raises NotFound if it was deleted or replaced.

        That one is put back; with RENAME also a directory where a table is being created. If its place was taken
        meanwhile it stays in the target, and TableReplaced says so. Raises AlreadyExists, UnsupportedFeature.
        """
        self._io.rename_dir(before.path, target)
        # a DROP that finds no schema: another one has deleted what was moved (``_delete_dropped``)
        if self._has_schema(before, target) or (drops and not self._schema_ids(target)):
            return
        try:
            self._io.rename_dir(target, before.path)
        except (AlreadyExists, NotFound):
            raise TableReplaced(
                f"table {before.identifier} was dropped or renamed, and the new table with its name is in '{target}': "
                "move that directory to an unused name"
            ) from None
        raise NotFound(f"table {before.identifier} was dropped or renamed by another process")

    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        path = self.table_path(identifier)
        taken = -1
        for _ in range(_ALTER_TRIES):
            before = self.load_table(identifier)
            if before.schema.id < taken:  # another ALTER has created this schema, and the listing may lag
                schema_there = self._read_schema(path, taken)
                if not is_of_another_table(schema_there.options, before.schema.options):
                    before = replace(before, schema=schema_there)
            schema = apply_changes(before.schema, changes, self.has_snapshots(path), now_ms())
            if schema is before.schema:
                return before
            schema = replace(schema, id=max(schema.id, taken + 1))
            if check is not None:
                check(before.schema, schema)
            self._check_same(before)
            io = self._io.within(path)  # a table that was moved away leaves no directory with this schema alone
            if _create_schema(io, f"{path}/schema/schema-{schema.id}", schema.to_json()):
                try:
                    self._check_same(before)
                except TableReplaced:
                    self._remove_own(path, schema)
                    raise
                return TableLocation(identifier, path, schema, io)
            taken = schema.id
        raise CommitConflict(
            f"table {identifier} was not changed: {_ALTER_TRIES} attempts lost against other changes. Try again"
        )

    def _remove_own(self, path: str, schema: TableSchema) -> None:
        """Deletes a schema that was created in the directory of another table, which skips it in any case.

        Only while it is the newest, because a gap in the numbers would be worse, and only if it still is there: after
        another DROP and CREATE, the file of its name is an acknowledged change of a table.
        """
        file = f"{path}/schema/schema-{schema.id}"
        with contextlib.suppress(NotFound):
            if self._schema_ids(path)[-1:] == [schema.id] and self._io.read(file) == schema.to_json():
                self._io.delete(file)

    def _has_schema(self, before: TableLocation, path: str) -> bool:
        """True if the table in a directory has the loaded schema."""
        with contextlib.suppress(NotFound):
            data = self._io.read(f"{path}/schema/schema-{before.schema.id}")
            return TableSchema.from_json(data) == before.schema
        return False

    def _check_same(self, before: TableLocation) -> None:
        """Raises TableReplaced if the loaded schema file is missing or differs, because the table was replaced."""
        if self._has_schema(before, before.path):
            return
        raise TableReplaced(
            f"table {before.identifier} was dropped or renamed while it was changed: check its columns, and repeat "
            "the change if it is missing"
        )

    def move_table(self, identifier: Identifier, new: Identifier) -> bool:
        target = self.table_path(new)
        if self._schema_ids(target):
            return False
        self._move(self.load_table(identifier), target)
        return True

    def has_snapshots(self, path: str) -> bool:
        """Returns whether the table in a directory has snapshots."""
        return any(_SNAPSHOT_FILE.fullmatch(s.name) for s in confined(self._io, path).list(f"{path}/snapshot"))

    def has_table(self, identifier: Identifier) -> bool:
        return bool(self._schema_ids(self.table_path(identifier)))

    def database_path(self, name: str) -> str:
        """The directory of a database, whether or not it exists. Raises InvalidRequest for an invalid name."""
        check_name("database", name)
        return f"{self.warehouse}/{name}{_SUFFIX}"

    def _may_be_table(self, path: str) -> bool:
        """True for a table, and for a directory that cannot be listed, so that it does not hide the other tables."""
        try:
            return bool(self._schema_ids(path))
        except Unavailable:
            return True

    def _schema_ids(self, table_path: str) -> list[int]:
        try:
            listed = confined(self._io, table_path).list(f"{table_path}/schema")
        except Corrupt:  # a link that leads out of the directory
            return []
        matches = (_SCHEMA_FILE.fullmatch(s.name) for s in listed)
        return sorted(int(match[1]) for match in matches if match)


def _create_schema(io: FileIO, path: str, data: bytes) -> bool:
    """Creates the schema file. Returns False if another change has taken its number."""
    unknown: CommitUnknown | None = None
    for _ in range(_ASKED_AGAIN):
        try:
            return io.create(path, data) or io.read(path) == data
        except CommitUnknown as why:
            unknown = why
        # a missing file may still appear; creating the same bytes again is harmless
        if io.exists(path):
            return io.read(path) == data
    raise CommitUnknown(
        f"unknown whether '{path}' was created: check the table's columns, and repeat the change if it is missing"
    ) from unknown


def _digest(schema: TableSchema) -> str:
    return hashlib.sha256(schema.to_json()).hexdigest()[:16]


def bare_path(path: str) -> str:
    """A path normalized for comparison: local paths without a scheme, S3 paths with the scheme ``s3``."""
    scheme, colon, rest = path.partition(":")
    if not colon:
        return path
    return "/" + rest.lstrip("/") if scheme == "file" else f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}"

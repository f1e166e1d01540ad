"""A client of Apache Paimon's REST catalog, whose server manages the tables and commits to them.

The server creates, alters and drops tables. This client reads and writes the files, with the configured storage of the
warehouse. It opens no file outside of the warehouse, even if the server names one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from lakelog.catalog.base import (
    DEFAULT_DATABASE,
    Catalog,
    CheckChange,
    Identifier,
    TableLocation,
    check_name,
    check_new_name,
)
from lakelog.catalog.directories import Directories, bare_path
from lakelog.catalog.rest_api import Answer, RestApi
from lakelog.catalog.rest_changes import change_json, schema_json
from lakelog.catalog.rest_owner import RestOwner
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    InvalidSchema,
    NotFound,
    UnsupportedFeature,
)
from lakelog.io.clock import now_ms
from lakelog.io.storage.confined import confined
from lakelog.io.storage.delegating import ServerCommittedFileIO
from lakelog.io.storage.file_io import FileIO
from lakelog.options.catalog import CATALOG_KEY, CATALOG_TOKEN, CATALOG_URI, CATALOG_WAREHOUSE
from lakelog.options.log import LOG_ADDRESS, LOG_TYPE
from lakelog.options.option import Options
from lakelog.options.table import QUERY_AUTH, TABLE_ID
from lakelog.paimon.schema.changes import SchemaChange, apply_changes
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import checked
from lakelog.paimon.types.types import nested_fields, parse_field

_ALTER_TRIES = 20
"""Maximum attempts of an ALTER that the server rejects because of a newer schema."""
_ASKED_AGAIN = 3
"""Maximum attempts of a change whose outcome is unknown."""
_PLAIN = "table"
"""The type of tables with snapshots; other types are plain files, or tables of other engines."""


class RestCatalog(Catalog):
    """Databases and tables of one warehouse of a server."""

    commits_by_server: ClassVar[bool] = True

    def __init__(self, warehouse: str, io: FileIO, options: Options) -> None:
        if CATALOG_URI.key not in options:
            raise InvalidOption(f"a rest catalog needs the option '{CATALOG_URI.key}', such as 'https://host:port'")
        if CATALOG_KEY.key in options:
            raise InvalidOption(
                f"option '{CATALOG_KEY.key}' does not apply to a rest catalog: set '{CATALOG_WAREHOUSE.key}'"
            )
        self._server = RestApi.of(options.need(CATALOG_URI), options.get_typed(CATALOG_TOKEN) or "")
        self._name = options.get_typed(CATALOG_WAREHOUSE) or warehouse
        self._files = Directories(warehouse, io)
        self._io = io
        self.warehouse = self._files.warehouse

    @cached_property
    def _api(self) -> RestApi:
        return self._server.of_warehouse(self._name)

    def list_databases(self) -> list[str]:
        return sorted(filter(_is_name, self._api.names("databases", "databases") or ()))

    def add_database(self, name: str) -> bool:
        answer = self._change("POST", "databases", body={"name": name, "options": {}})
        if not answer.is_done and answer.status != 409:
            raise InvalidRequest(f"the catalog server refused database '{name}': {answer.message}")
        return answer.is_done

    def remove_database(self, name: str, cascade: bool) -> bool:
        answer = self._change("DELETE", "databases", name)
        if not answer.is_done and answer.status != 404:
            raise InvalidRequest(f"the catalog server did not drop database '{name}': {answer.message}")
        return answer.is_done

    def find_tables(self, database: str) -> list[str] | None:
        names = self._api.names("tables", "databases", database, "tables")
        # a table with branches may be listed twice
        return None if names is None else sorted(set(filter(_is_name, names)))

    def has_table(self, identifier: Identifier) -> bool:
        return self._find(identifier) is not None

    def table_path(self, identifier: Identifier) -> str:
        path = self._files.table_path(identifier)
        description = self._find(identifier)
        return path if description is None else self._path_of(identifier, description)

    def table_io(self, identifier: Identifier) -> FileIO:
        return self._files.table_io(identifier)

    def load_table(self, identifier: Identifier) -> TableLocation:
        self._files.table_path(identifier)
        description = self._find(identifier)
        if description is None:
            raise self._no_table(identifier)
        path = self._path_of(identifier, description)
        table_id = description.get("id")
        owner = RestOwner(self._api, identifier.database, identifier.table, None if table_id is None else str(table_id))
        # the server does not commit to a table at a custom path of the user
        storage = self._io.within(path)
        io = storage if description.get("isExternal") else ServerCommittedFileIO(storage, owner)
        return TableLocation(identifier, path, self._schema_of(identifier, path, description), io)

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False) -> TableLocation:
        check_new_name("table", identifier.table)
        expected = self._files.table_path(identifier)
        if identifier.database == DEFAULT_DATABASE and self.find_tables(DEFAULT_DATABASE) is None:
            self.create_database(DEFAULT_DATABASE, if_not_exists=True)
        location = self._created_table(identifier, schema)
        if location is None:
            if not if_not_exists:
                raise AlreadyExists(f"table {identifier} exists: choose another name, or write IF NOT EXISTS")
            return self.load_table(identifier)
        is_inside = LOG_TYPE.key in schema.options and LOG_ADDRESS.key not in schema.options
        if is_inside and location.path != expected:
            self.drop_table(identifier, if_exists=True)
            raise UnsupportedFeature(
                f"the catalog server places table {identifier} in '{location.path}', but its log is at '{expected}': "
                "set 'log-store.address' to a log server, or create the table without a log"
            )
        return location

    def _created_table(self, identifier: Identifier, schema: TableSchema) -> TableLocation | None:
        """The created table; None if another table has its name.

        After a lost response, a table with identical columns and options counts as created by this call.
        """
        body = {"identifier": _identifier(identifier), "schema": schema_json(schema)}
        unanswered = 0
        while True:
            try:
                answer = self._change("POST", "databases", identifier.database, "tables", body=body)
            except CommitUnknown:
                unanswered += 1
                if self._find(identifier) is None:
                    if unanswered == _ASKED_AGAIN:
                        raise
                    continue
            else:
                if answer.is_done:
                    return self._own(identifier, schema)
                if answer.status == 404:
                    raise self._no_database(identifier.database)
                if answer.status != 409:
                    raise InvalidSchema(f"the catalog server refused table {identifier}: {answer.message}")
            if not unanswered:
                return None
            location = self.load_table(identifier)
            return location if _content(location.schema) == _content(schema) else None

    def _own(self, identifier: Identifier, schema: TableSchema) -> TableLocation:
        """The table that this call has created. Raises CommitUnknown if it was renamed or dropped since."""
        with contextlib.suppress(NotFound):
            location = self.load_table(identifier)
            if location.schema.options.get(TABLE_ID) == schema.options.get(TABLE_ID):
                return location
        raise CommitUnknown(  # it may exist, and needs its log
            f"table {identifier} was created, and renamed or dropped meanwhile: list the tables of its database"
        )

    def remove_table(self, identifier: Identifier) -> None:
        answer = self._change("DELETE", "databases", identifier.database, "tables", identifier.table)
        if answer.status == 404:
            raise self._no_table(identifier)
        if not answer.is_done:
            raise InvalidRequest(f"the catalog server did not drop table {identifier}: {answer.message}")

    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        """Implements ``Catalog.alter_table``, but the protocol has no condition on the current schema.

        ``check`` sees the newest schema before the request. A schema that a concurrent ALTER writes after that is not
        checked.
        """
        before, asked = self.load_table(identifier), 0
        for _ in range(_ALTER_TRIES):
            effective, after = self._plan(before, changes)
            if not effective:
                return before
            if check is not None:
                check(before.schema, after)
            try:
                body = {"changes": [change_json(change) for change in effective]}
                answer = self._change("POST", "databases", identifier.database, "tables", identifier.table, body=body)
                if answer.is_done:
                    return self.load_table(identifier)
            except CommitUnknown as why:
                answer, asked, unknown = None, asked + 1, why
            newest = self.load_table(identifier)
            if asked and self._is_applied(before, newest, changes):
                return newest
            if answer is not None and newest.schema.id == before.schema.id:
                raise InvalidSchema(f"the catalog server refused the change of {identifier}: {answer.message}")
            if asked == _ASKED_AGAIN:
                raise CommitUnknown(
                    f"unknown whether '{before.path}/schema/schema-{after.id}' was created: check the table's "
                    "columns, and repeat the change if it is missing"
                ) from unknown
            # a missing change may still arrive; if both requests arrive, one has no effect or is rejected
            before = newest
        raise CommitConflict(
            f"table {identifier} was not changed: {_ALTER_TRIES} attempts lost against other changes. Try again"
        )

    def move_table(self, identifier: Identifier, new: Identifier) -> bool:
        body = {"source": _identifier(identifier), "destination": _identifier(new)}
        answer = self._change("POST", "tables", "rename", body=body)
        if answer.status == 404:
            raise self._no_table(identifier)
        if not answer.is_done and answer.status != 409:
            raise InvalidRequest(f"the catalog server did not rename table {identifier}: {answer.message}")
        return answer.is_done

    def _plan(self, before: TableLocation, changes: Sequence[SchemaChange]) -> tuple[list[SchemaChange], TableSchema]:
        """The effective changes and the expected schema. Raises as ``apply_changes``."""
        has_snapshots = self._files.has_snapshots(before.path)
        after = apply_changes(before.schema, changes, has_snapshots, now_ms())
        if after is before.schema:
            return [], after
        effective, current = [], before.schema
        for change in changes:
            changed = change.apply(current, has_snapshots)
            if changed != current:
                effective.append(change)
            current = changed
        return effective, after

    def _is_applied(self, before: TableLocation, newest: TableLocation, changes: Sequence[SchemaChange]) -> bool:
        """Returns whether a schema since ``before`` results from these changes to its predecessor."""
        former = before.schema
        for schema_id in range(before.schema.id + 1, newest.schema.id + 1):
            path = f"{newest.path}/schema/schema-{schema_id}"
            schema = newest.schema if schema_id == newest.schema.id else TableSchema.from_json(newest.io.read(path))
            try:
                expected = apply_changes(former, changes, self._files.has_snapshots(newest.path), schema.time_millis)
            except (InvalidSchema, InvalidOption, UnsupportedFeature):
                expected = former
            if _content(expected) == _content(schema):
                return True
            former = schema
        return False

    def _change(self, method: str, *path: str, body: dict[str, Any] | None = None) -> Answer:
        """Sends a change to the server; the only way in which this catalog changes anything."""
        return self._api.change(method, *path, body=body)

    def _find(self, identifier: Identifier) -> dict[str, Any] | None:
        """The server's description of a table; None if the table does not exist."""
        answer = self._api.get("databases", identifier.database, "tables", identifier.table)
        if answer.status == 404:
            return None
        if not answer.is_done:
            raise InvalidRequest(f"the catalog server did not return table {identifier}: {answer.message}")
        description = dict(answer.body)
        kind = ((description.get("schema") or {}).get("options") or {}).get("type", _PLAIN)
        if kind != _PLAIN:
            raise UnsupportedFeature(f"{identifier} is a {kind}, not a table with snapshots: use another engine")
        return description

    def _path_of(self, identifier: Identifier, description: dict[str, Any]) -> str:
        """The path of a table below the warehouse path. Raises UnsupportedFeature for a path outside of it."""
        path, root = bare_path(str(description.get("path") or "")), bare_path(self.warehouse)
        inside = path.removeprefix(f"{root}/").rstrip("/")
        if not path.startswith(f"{root}/") or not inside or {"", ".", ".."} & set(inside.split("/")):
            raise UnsupportedFeature(
                f"the catalog server locates table {identifier} at {str(description.get('path'))[:300]!r}, not in the "
                f"warehouse '{self.warehouse}': open the warehouse in which it was created"
            )
        return f"{self.warehouse}/{inside}"

    def _schema_of(self, identifier: Identifier, path: str, description: dict[str, Any]) -> TableSchema:
        """The schema from its file, because the response lacks the time, version and highest column id."""
        try:
            schema_id, values = int(description["schemaId"]), description["schema"]
            try:
                stored = TableSchema.from_json(confined(self._io, path).read(f"{path}/schema/schema-{schema_id}"))
                # a server may have rules for a table whose files do not mention them
                rules = {k: str(v) for k, v in (values.get("options") or {}).items() if k == QUERY_AUTH}
                return replace(stored, options={**stored.options, **rules}) if rules else stored
            except NotFound:
                fields = tuple(parse_field(f) for f in values["fields"])
                schema = TableSchema(
                    id=schema_id,
                    fields=fields,
                    highest_field_id=max(f.id for field in fields for f in (field, *nested_fields(field.type))),
                    partition_keys=tuple(values.get("partitionKeys") or ()),
                    primary_keys=tuple(values.get("primaryKeys") or ()),
                    options={k: v for k, v in (values.get("options") or {}).items() if k != "path"},
                    comment=values.get("comment"),
                )
                return checked(schema)
        except (KeyError, TypeError, ValueError, AttributeError) as why:
            raise Corrupt(f"the catalog server sent no valid table for {identifier}: {why!r}") from None


def _content(schema: TableSchema) -> tuple[Any, ...]:
    """The user-defined parts of a schema, without id and time, which the creator assigns."""
    return schema.fields, schema.primary_keys, schema.partition_keys, dict(schema.options), schema.comment


def _identifier(identifier: Identifier) -> dict[str, str]:
    return {"database": identifier.database, "object": identifier.table}


def _is_name(name: str) -> bool:
    """Returns whether a name from the server is a valid request parameter; lists omit other names."""
    try:
        check_name("table", name)
    except InvalidRequest:
        return False
    return True

"""The tables of a lake with the checks of a user's statements."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.catalog.base import DEFAULT_DATABASE, Identifier, TableLocation
from lakelog.catalog.names import FIRST
from lakelog.errors import LakelogError, NotAllowed
from lakelog.logstore import client_properties
from lakelog.logstore.credentials import servers_in
from lakelog.logstore.factory import SERVER
from lakelog.options.catalog import CATALOG_LOG_SERVERS, CATALOG_OPTIONS
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import LOG_ADDRESS, LOG_TYPE, may_be_secret, names_log_server, shown_value
from lakelog.options.option import Options
from lakelog.options.schema_registry import REGISTRY_URL
from lakelog.options.secrets import without_password
from lakelog.options.storage import STORAGE_OPTIONS
from lakelog.paimon.schema.changes import RemoveOption, SchemaChange, SetOption
from lakelog.paimon.schema.schema import TableSchema
from lakelog.service.terminal.guard.option_rules import check_catalog_options, check_hints, check_options
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import ALL_OPTIONS, by_canonical_key


class GuardedTables(CatalogTables):
    """Refuses options that name files, programs, classes and servers, and CREATE DATABASE without the privilege."""

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, str],
        catalog_options: Mapping[str, str],
        role: Privilege,
        files: bool,
    ) -> None:
        super().__init__(warehouse, storage_options, catalog_options)
        self._role = role
        self._files = files and role >= Privilege.ADMIN

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checks options. Raises NotAllowed, InvalidOption."""
        options = super().canonical_options(given, scope)
        if scope != "table":
            check_hints(options)
        check_options(options, self._files)
        return options

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The columns of a read; only admins get secret options, which CREATE TABLE LIKE would copy."""
        schema = super().load_schema(identifier, options)
        if schema is None or self._role >= Privilege.ADMIN:
            return schema
        return replace(schema, options={key: shown_value(key, value) for key, value in schema.options.items()})

    def open(self, identifier: Identifier, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table; its own options were checked before. Raises NotAllowed for hints, NotFound."""
        check_options(hints or {}, self._files)
        self._check_servers(identifier, hints or {})
        return super().open(identifier, hints)

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Creates a table. Raises NotAllowed."""
        check_options(schema.options, self._files)
        self._check_servers(identifier, schema.options)
        super().create_table(identifier, schema, if_not_exists)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
        """Changes a table's schema. Raises NotAllowed."""
        options = by_canonical_key({change.key: change.value for change in changes if isinstance(change, SetOption)})
        reset = {ALL_OPTIONS.canonical_key(change.key) for change in changes if isinstance(change, RemoveOption)}
        if not options.keys().isdisjoint(_TOGETHER):
            kept = {} if (schema := self.load_schema(identifier)) is None else by_canonical_key(schema.options)
            options = {key: kept[key] for key in _TOGETHER if key in kept} | options
        check_options(options, self._files)
        if self._role < Privilege.ADMIN and any(map(names_log_server, {*options, *reset})):
            self._check_no_secrets(identifier)
        changed = {change.key: change.value for change in changes if isinstance(change, SetOption)}
        self._check_servers(identifier, changed)
        return super().alter_table(identifier, changes)

    def _check_servers(self, identifier: Identifier, options: Mapping[str, str]) -> None:
        """Checks that the options name only servers that the catalog has or allows. Raises NotAllowed."""
        if self._role < Privilege.ADMIN and identifier.catalog in self.configs:
            known = self._servers_of_tables(identifier.catalog)
            check_servers(options, self.configs[identifier.catalog].catalog, known)

    def _servers_of_tables(self, catalog: str) -> Iterator[str]:
        """The servers that the tables of a catalog have; tables that cannot be opened have none."""
        there = self._of(catalog)
        for database in there.list_databases():
            for name in there.list_tables(database):
                with contextlib.suppress(LakelogError):
                    schema = there.load_table(Identifier(database, name, catalog)).schema
                    yield from (server for _, server in servers_of(schema.options))

    def _check_no_secrets(self, identifier: Identifier) -> None:
        """Checks that secrets of a table are sent only to its own address. Raises NotAllowed if it has secrets."""
        kept = super().load_schema(identifier)
        hidden = [] if kept is None else [key for key in kept.options if may_be_secret(key)]
        if hidden:
            raise NotAllowed(
                f"where the log of table {identifier} is and how secrets go there can be changed only with the role "
                f"{Privilege.ADMIN.word}, because '{hidden[0]}' would be sent there. Ask an administrator"
            )

    def create_database(self, name: str, if_not_exists: bool, catalog: str = FIRST) -> None:
        """Creates a database, also for a CREATE TABLE in an unknown one. Raises NotAllowed."""
        if self._role < Privilege.ADMIN and name != DEFAULT_DATABASE:
            raise NotAllowed(
                f"database '{name}' does not exist, and creating one needs the role {Privilege.ADMIN.word}; these "
                f"statements run as {self._role.word}. Use an existing database, or ask an administrator"
            )
        super().create_database(name, if_not_exists, catalog)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a catalog to the session. Raises NotAllowed, InvalidOption."""
        named = {_canonical(key): str(value) for key, value in options.items()}
        check_catalog_options(name, named, self._files)
        super().create_catalog(name, options)


_TOGETHER: Final = (LOG_TYPE.key, LOG_ADDRESS.key)
"""Options that are allowed together: one defines the meaning of the other, which the table may already have."""


def _canonical(key: str) -> str:
    return STORAGE_OPTIONS.canonical_key(CATALOG_OPTIONS.canonical_key(key))


def servers_of(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, server) of every server that the options of a table name, in every spelling, as ``host:port``."""
    properties = {f"{PROPERTIES_PREFIX}{name}" for name, sort in client_properties().items() if sort == SERVER}
    for spelling, value in options.items():
        if (key := ALL_OPTIONS.canonical_key(spelling)) in (LOG_ADDRESS.key, REGISTRY_URL.key) or key in properties:
            yield from ((key, server) for server in servers_in(value))


def check_servers(options: Mapping[str, str], catalog: Mapping[str, str], known: Iterable[str]) -> None:
    """Checks that options of a table name only servers that their catalog allows or knows.

    ``catalog`` has the options of the catalog. ``known`` are the servers of its tables; they are read only if needed.
    Raises NotAllowed for any other server: what is compared is the whole text, so that no two parsers can differ.
    """
    named = Options(CATALOG_OPTIONS.canonical(catalog)).get_typed(CATALOG_LOG_SERVERS) or ""
    refused = [(key, server) for key, server in servers_of(options) if server not in set(servers_in(named))]
    if not refused:
        return
    servers = set(known)
    for key, server in refused:
        if server not in servers:
            raise NotAllowed(
                f"option '{key}' names the server '{without_password(server)}', which no table of this catalog has and "
                f"its option '{CATALOG_LOG_SERVERS.key}' does not list: use a server of another table, or ask an "
                f"administrator to add this one to '{CATALOG_LOG_SERVERS.key}'"
            )

"""The catalogs of a lake for an SQL session."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.catalog.names import FIRST
from lakelog.errors import Corrupt, InvalidRequest, NotFound
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.logs import fields
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.describe import describe
from lakelog.table.alter import alter_table, rename_table
from lakelog.table.catalog_config import CatalogConfig
from lakelog.table.copies.backup_store import BackupPoint, BackupStore
from lakelog.table.copies.replication import promote
from lakelog.table.copies.restore import restore_new
from lakelog.table.create import create_table, drop_table
from lakelog.table.cuts.writer import forget_cuts
from lakelog.table.maintenance.analyze import analyze
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options, check_no_plain_secrets
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.open import base_of, identifier_of, open_table, scan_of
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.write.dml_support import DmlSupport, changeable
from lakelog.table.write.overwrite import delete_partitions, drop_partitions, truncate

_LOG: Final = logging.getLogger("lakelog.views")


class CatalogTables:
    """The tables of one or several catalogs, for the SQL session.

    Identifiers name the catalog (``FIRST`` for the one that always exists). A removed catalog raises NotFound.
    """

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
    ) -> None:
        self.configs = {FIRST: CatalogConfig(warehouse, dict(storage_options or {}), dict(catalog_options or {}))}
        self.catalog = self.configs[FIRST].open()
        self._catalogs = {FIRST: self.catalog}

    def list_catalogs(self) -> list[str]:
        """Names of the further catalogs, sorted."""
        return sorted(name for name in self._catalogs if name != FIRST)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a catalog with an unused name; contacts no server. Raises InvalidOption, NotInstalled."""
        self.add_catalog(name, CatalogConfig.of(name, options))

    def add_catalog(self, name: str, config: CatalogConfig) -> None:
        """Adds the catalog of a configuration."""
        self._catalogs[name] = config.open()
        self.configs[name] = config

    def drop_catalog(self, name: str) -> None:
        """Removes a further catalog; its contents stay."""
        del self._catalogs[name], self.configs[name]

    def open(self, identifier: Identifier, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table, branch or system table of this name; raises NotFound."""
        return open_table(self._of(identifier.catalog), identifier, hints, self._of)

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The columns of a read with these options (without any: the newest); None if there is no such table."""
        catalog = self._of(identifier.catalog)
        if not _can_be(base_of(identifier)):
            return None  # parquet.`/path` is a valid name, but not of a lakelog table
        if "$" not in identifier.table and not options:
            try:
                return catalog.load_table(identifier).schema
            except NotFound:
                return None
        try:
            catalog.load_table(base_of(identifier))
        except NotFound:
            return None
        return scan_of(self.open(identifier, options)).row_schema

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Creates a table and its log. Raises AlreadyExists, InvalidOption for a secret in plain text."""
        check_no_plain_secrets(schema.options, schema.options)
        create_table(self._of(identifier.catalog), identifier, schema, if_not_exists)

    def restore(
        self, identifier: Identifier, store: BackupStore, point: BackupPoint, options: Mapping[str, str]
    ) -> DynamicTable:
        """Makes a new table of a point of a backup."""
        return restore_new(self._of(identifier.catalog), identifier, store, point, options)

    def promote(self, identifier: Identifier, options: Mapping[str, str]) -> None:
        """Makes a replica a table of its own."""
        promote(self._of(identifier.catalog), identifier, options)

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        """Drops a table and, if lakelog owns it, its log. Raises NotFound unless ``if_exists``."""
        drop_table(self._of(identifier.catalog), identifier, if_exists, purge)

    def truncate(self, identifier: Identifier, partition: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        """Removes all rows, or those of the partitions with these values. Raises NotFound if no partition has them."""
        truncate(self.open(identifier, options), partition)

    def drop_partitions(
        self,
        identifier: Identifier,
        partitions: Sequence[Mapping[str, str | None]],
        if_exists: bool,
        options: Mapping[str, str],
    ) -> None:
        """Removes the partitions with these values of partition columns. Raises NotFound unless ``if_exists``."""
        drop_partitions(self.open(identifier, options), partitions, if_exists)

    def delete(self, identifier: Identifier, condition: Predicate | None, options: Mapping[str, str]) -> RowCounts:
        """Deletes the partitions that match a condition on partition columns; all rows without one."""
        return delete_partitions(self.open(identifier, options), condition)

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> DmlSupport:
        """The support of a table for UPDATE, DELETE and MERGE. Raises UnsupportedFeature for one of the actions."""
        return changeable(self.open(identifier, options), actions)

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics of the table and of some columns (None: of all), and commits them."""
        analyze(self.open(identifier), columns)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
        """Writes one new schema with all changes; returns the table. Raises NotFound, InvalidRequest."""
        return alter_table(self._of(identifier.catalog), identifier, changes)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table within its catalog. Raises NotFound, AlreadyExists."""
        if identifier.catalog != new.catalog:
            raise InvalidRequest(
                f"table {identifier} cannot become {new}, which is in another catalog: run CREATE TABLE … AS SELECT "
                "there, then drop the table here"
            )
        rename_table(self._of(identifier.catalog), identifier, new)

    def list_tables(self, database: str, catalog: str = FIRST) -> list[str]:
        """Table names of a database. Raises NotFound."""
        return self._of(catalog).list_tables(database)

    def list_databases(self, catalog: str = FIRST) -> list[str]:
        """Database names of a catalog."""
        return self._of(catalog).list_databases()

    def create_database(self, name: str, if_not_exists: bool, catalog: str = FIRST) -> None:
        """Creates a database. Raises AlreadyExists unless ``if_not_exists``."""
        self._of(catalog).create_database(name, if_not_exists)

    def drop_database(self, name: str, if_exists: bool, cascade: bool, catalog: str = FIRST) -> None:
        """Drops a database; with ``cascade`` its tables and their logs first. Raises NotFound unless ``if_exists``."""
        there = self._of(catalog)
        views: list[ViewDefinition] = []
        if cascade and name in there.list_databases():
            views = [definition for identifier, definition in views_of(self, catalog) if identifier.database == name]
            for table in there.list_tables(name):
                drop_table(there, Identifier(name, table, catalog), if_exists=True)
        there.drop_database(name, if_exists, cascade)
        for definition in views:
            forget_view(self, definition)

    def describe(self, identifier: Identifier, extended: bool) -> list[tuple[str, str, str]]:
        """(name, type, comment) of each column; ``extended`` adds rows about the table. Raises NotFound."""
        return describe(self.open(identifier), extended)

    def canonical_options(self, options: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checked options with canonical keys; scope is ``table``, ``read`` or ``write``. Raises InvalidOption."""
        return canonical_options(options, scope)

    def _of(self, catalog: str) -> Catalog:
        named = self._catalogs.get(catalog)
        if named is None:
            raise NotFound(f"catalog '{catalog}' was dropped; catalogs: {', '.join(self.list_catalogs())}")
        return named


def _can_be(identifier: Identifier) -> bool:
    """True if a table could have this name."""
    try:
        identifier.check_names()
    except InvalidRequest:
        return False
    return True


def forget_view(tables: CatalogTables, definition: ViewDefinition) -> None:
    """Removes what keeps snapshots for a view that was dropped, from its sources that exist."""
    for source in map(identifier_of, definition.sources):
        if tables.load_schema(source) is not None:
            table = tables.open(source)
            forget_cuts(table, definition.writer)
            consumers = table.store.consumers
            if consumers.position(definition.writer) is not None:
                consumers.delete(definition.writer)


def views_of(tables: CatalogTables, catalog: str) -> Iterator[tuple[Identifier, ViewDefinition]]:
    """All views of a catalog, by name, without those whose definition is damaged."""
    for database in tables.list_databases(catalog):
        for name in tables.list_tables(database, catalog):
            identifier = Identifier(database, name, catalog)
            schema = tables.load_schema(identifier)
            try:
                definition = None if schema is None else ViewDefinition.of(schema)
            except Corrupt as why:
                _LOG.warning("view %s: %s", identifier, why, extra=fields(table=str(identifier)))
                continue
            if definition is not None:
                yield identifier, definition

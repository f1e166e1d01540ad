"""The catalogs of a lake for an SQL session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.catalog.names import FIRST
from lakelog.errors import InvalidRequest, NotFound
from lakelog.lake.output.describe import describe
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.views.create import forget_view, views_of
from lakelog.table.alter import alter_table, rename_table
from lakelog.table.catalog_config import CatalogConfig
from lakelog.table.copies.backup_store import BackupPoint, BackupStore
from lakelog.table.copies.replication import promote
from lakelog.table.copies.restore import restore_new
from lakelog.table.create import create_table, drop_table
from lakelog.table.maintenance.analyze import analyze
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options, check_no_plain_secrets
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.open import base_of, open_table, scan_of
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.write.dml_support import DmlSupport, changeable
from lakelog.table.write.overwrite import delete_partitions, drop_partitions, truncate


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
        """Adds a catalog; writes nothing, and contacts no server."""
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
        """The columns of a read with these options, None if there is no such table."""
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
        """Creates a table and its log. Raises InvalidOption for a secret in plain text."""
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
        """Drops a table and, if lakelog owns it, its log."""
        drop_table(self._of(identifier.catalog), identifier, if_exists, purge)

    def truncate(self, identifier: Identifier, partition: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        """Removes all rows, or those of some partitions."""
        truncate(self.open(identifier, options), partition)

    def drop_partitions(
        self,
        identifier: Identifier,
        partitions: Sequence[Mapping[str, str | None]],
        if_exists: bool,
        options: Mapping[str, str],
    ) -> None:
        """Removes partitions."""
        drop_partitions(self.open(identifier, options), partitions, if_exists)

    def delete(self, identifier: Identifier, condition: str | None, options: Mapping[str, str]) -> RowCounts:
        """Deletes whole partitions."""
        table = self.open(identifier, options)
        return delete_partitions(table, None if condition is None else parse_filter(condition, table.schema))

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> DmlSupport:
        """The support of a table for these row-level actions."""
        return changeable(self.open(identifier, options), actions)

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics and commits them."""
        analyze(self.open(identifier), columns)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
        """Changes a table's schema; returns the changed table."""
        return alter_table(self._of(identifier.catalog), identifier, changes)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table within its catalog."""
        if identifier.catalog != new.catalog:
            raise InvalidRequest(
                f"table {identifier} cannot become {new}, which is in another catalog: run CREATE TABLE … AS SELECT "
                "there, then drop the table here"
            )
        rename_table(self._of(identifier.catalog), identifier, new)

    def list_tables(self, database: str, catalog: str = FIRST) -> list[str]:
        """Table names of a database."""
        return self._of(catalog).list_tables(database)

    def list_databases(self, catalog: str = FIRST) -> list[str]:
        """Database names of a catalog."""
        return self._of(catalog).list_databases()

    def create_database(self, name: str, if_not_exists: bool, catalog: str = FIRST) -> None:
        """Creates a database."""
        self._of(catalog).create_database(name, if_not_exists)

    def drop_database(self, name: str, if_exists: bool, cascade: bool, catalog: str = FIRST) -> None:
        """Drops a database; with ``cascade`` drops its tables and their logs first."""
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
        """(column, type, comment) rows."""
        return describe(self.open(identifier), extended)

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checks options."""
        return canonical_options(given, scope)

    def _of(self, catalog: str) -> Catalog:
        found = self._catalogs.get(catalog)
        if found is None:
            raise NotFound(f"catalog '{catalog}' was dropped; catalogs: {', '.join(self.list_catalogs())}")
        return found


def _can_be(identifier: Identifier) -> bool:
    """True if a table could have this name."""
    try:
        identifier.check_names()
    except InvalidRequest:
        return False
    return True

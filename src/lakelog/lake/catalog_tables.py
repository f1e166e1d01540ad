"""The catalog as a session of SQL sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.errors import NotFound
from lakelog.lake.describe import describe
from lakelog.spec.schema import TableSchema
from lakelog.spec.schema_change import SchemaChange
from lakelog.sql.filter_text import parse_filter
from lakelog.table.alter import alter_table, rename_table
from lakelog.table.analyze import analyze
from lakelog.table.create import create_table, drop_table
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_options import canonical_options
from lakelog.table.open import base_of, open_catalog, open_table
from lakelog.table.overwrite import delete_partitions, drop_partitions, truncate
from lakelog.table.row_changes import Changeable, changeable
from lakelog.table.views import scan_of


class CatalogTables:
    """The catalog as the SQL session sees it."""

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
    ) -> None:
        self.catalog = open_catalog(warehouse, storage_options, catalog_options)

    def open(self, identifier: Identifier, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table, branch or system table of this name; raises NotFound."""
        return open_table(self.catalog, identifier, hints)

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The columns that a read with these options has, None when there is no such table."""
        if "$" not in identifier.table and not options:
            try:
                return self.catalog.load_table(identifier).schema
            except NotFound:
                return None
        try:
            self.catalog.load_table(base_of(identifier))
        except NotFound:
            return None
        return scan_of(self.open(identifier, options)).row_schema

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Makes a table and its log."""
        create_table(self.catalog, identifier, schema, if_not_exists)

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        """Drops a table and, where it is ours, its log."""
        drop_table(self.catalog, identifier, if_exists, purge)

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

    def delete(self, identifier: Identifier, condition: str | None, options: Mapping[str, str]) -> None:
        """Deletes whole partitions."""
        table = self.open(identifier, options)
        delete_partitions(table, None if condition is None else parse_filter(condition, table.schema))

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> Changeable:
        """How rows change by these actions."""
        return changeable(self.open(identifier, options), actions)

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics and commits them."""
        analyze(self.open(identifier), columns)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
        """Changes a table's schema; answers with the table as it is then."""
        return alter_table(self.catalog, identifier, changes)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table."""
        rename_table(self.catalog, identifier, new)

    def list_tables(self, database: str) -> list[str]:
        """Table names of a database."""
        return self.catalog.list_tables(database)

    def list_databases(self) -> list[str]:
        """Database names."""
        return self.catalog.list_databases()

    def create_database(self, name: str, if_not_exists: bool) -> None:
        """Makes a database."""
        self.catalog.create_database(name, if_not_exists)

    def drop_database(self, name: str, if_exists: bool, cascade: bool) -> None:
        """Drops a database; with ``cascade`` its tables and their logs first."""
        if cascade and name in self.catalog.list_databases():
            for table in self.catalog.list_tables(name):
                drop_table(self.catalog, Identifier(name, table), if_exists=True)
        self.catalog.drop_database(name, if_exists, cascade)

    def describe(self, identifier: Identifier, extended: bool) -> list[tuple[str, str, str]]:
        """(column, type, comment) rows."""
        return describe(self.open(identifier), extended)

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checks options."""
        return canonical_options(given, scope)

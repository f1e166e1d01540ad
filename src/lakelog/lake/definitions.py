"""The methods of ``Lake`` that create, rename and drop databases and tables; no SQL and no Spark needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, LakelogError, NotFound, UnsupportedFeature
from lakelog.io.clock import now_ms
from lakelog.lake.column_types import columns_of
from lakelog.lake.lazy_engine import LazyEngine
from lakelog.lake.table import Table
from lakelog.options.boundary import Public
from lakelog.options.parts import INGESTS
from lakelog.paimon.schema.schema import new_schema
from lakelog.sql.parse import Session
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.table.open import identifier_of
from lakelog.table.views.rules import check_no_view


class LakeDefinitions(Public, ABC):
    """Definitions of databases and tables."""

    _tables: CatalogTables
    _engine: LazyEngine
    _session: Session

    @abstractmethod
    def table(self, name: str) -> Table:
        """The table of this name."""

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        primary_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Creates a table, and its database if missing; returns the table.

        ``schema`` is an Arrow schema, anything with one (an Arrow table, a polars or pandas DataFrame, a polars
        schema), or a map of column names to types: SQL text (``"bigint not null"``), Arrow or polars types. Columns of
        ``primary_key`` become NOT NULL. ``options`` are table options, as in TBLPROPERTIES. With ``if_not_exists`` an
        existing table is returned unchanged. Raises AlreadyExists, InvalidSchema, InvalidOption, UnsupportedFeature for
        a type that tables do not have.

        ```pycon
        >>> columns = {"id": "bigint", "name": "string"}
        >>> new = lake.create_table("db.new", columns, primary_key="id", options={"log-store.enabled": True})
        >>> new.primary_keys
        ('id',)
        ```
        """
        identifier = self._session.identifier(name)
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (options or {}).items()
        }
        new = new_schema(
            columns_of(schema),
            _names(primary_key),
            _names(partition_by),
            self._tables.canonical_options(texts, "table"),
            comment,
            now_ms(),
        )
        self._session.create_table(identifier, new, if_not_exists)
        return self.table(name)

    def ingest(self, source: str, tables: Sequence[str], into: str, **settings: Any) -> Any:
        """Tables of a database, to be copied into the database ``into`` and followed by their changes, exactly once.

        ``source`` is ``postgres://user@host/database``, and ``tables`` are names such as ``public.orders``.
        ``settings`` are ``slot``, ``publication``, ``interval_s`` between commits, and ``options`` of new tables.
        ``run()`` of the result does it, and yields its progress; ``status()`` returns positions, and ``drop_slot()``
        ends it for good (``lakelog.service.ingest.ingest.Ingest``). Raises InvalidRequest, NotInstalled.
        """
        scheme, separator, _ = source.partition("://")
        if not separator or scheme not in INGESTS:  # not shown, because it may have a password
            raise InvalidRequest("the address of a database is written as postgres://user@host:5432/database")
        return INGESTS.create(scheme, self, source, tables, into, **settings)

    def create_database(self, name: str, if_not_exists: bool = False) -> None:
        """Creates a database (``db`` or ``catalog.db``). Raises AlreadyExists, InvalidRequest for a bad name."""
        catalog, database = self._database(name)
        self._tables.create_database(database, if_not_exists, catalog)

    def drop_table(self, name: str, if_exists: bool = False, purge: bool = False) -> None:
        """Drops a table with its files, and its log if lakelog made it; ``purge`` as in DROP TABLE.

        Raises NotFound, InvalidRequest for a materialized view, which ``views.drop`` drops.

        ```pycon
        >>> lake.drop_table("db.old", if_exists=True)
        ```
        """
        identifier = self._session.identifier(name)
        if self._session.exists(identifier):
            check_no_view(self._tables.load_schema(identifier), name)
            self._engine.uncache_table(identifier)
        self._tables.drop_table(identifier, if_exists, purge)

    def drop_database(self, name: str, if_exists: bool = False, cascade: bool = False) -> None:
        """Drops a database, with ``cascade`` with its tables. Raises NotFound, InvalidRequest if it has tables."""
        catalog, database = self._database(name)
        self._tables.drop_database(database, if_exists, cascade, catalog)

    def rename_table(self, name: str, new_name: str) -> None:
        """Renames a table within its catalog; a bare ``new_name`` stays in the database.

        Raises AlreadyExists, NotFound, and InvalidRequest for another catalog.

        ```pycon
        >>> lake.rename_table("db.t", "items")
        >>> lake.table_exists("db.items")
        True
        ```
        """
        old = self._session.identifier(name)
        new = identifier_of(new_name, old.database)
        catalog = self._session.catalogs.need(new.catalog) if new.catalog else old.catalog
        self._tables.rename_table(old, Identifier(new.database, new.table, catalog))

    def table_exists(self, name: str) -> bool:
        """Returns whether a table of this name exists, readable or not. Raises InvalidRequest for an invalid name.

        ```pycon
        >>> lake.table_exists("db.t")
        True
        ```
        """
        try:
            self._tables.open(self._session.identifier(name))
        except NotFound:
            return False
        except UnsupportedFeature:
            return True
        except InvalidRequest:
            raise
        except LakelogError:
            return True
        return True

    def _database(self, name: str) -> tuple[str, str]:
        """The catalog and the database of ``db`` or ``catalog.db``."""
        identifier = identifier_of(name, "")
        if identifier.catalog:
            raise InvalidRequest(f"'{name}' is not a database name: write 'db' or 'catalog.db'")
        catalog = (
            self._session.catalogs.need(identifier.database) if identifier.database else self._session.current_catalog
        )
        return catalog, identifier.table


def _names(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())

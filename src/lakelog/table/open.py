"""Opens a table by its name in a warehouse, or by its directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakelog.catalog import CATALOGS
from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import InvalidRequest
from lakelog.io import file_io_for
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_options import canonical_options


def open_catalog(warehouse: str, kind: str = "filesystem", storage_options: Mapping[str, str] | None = None) -> Catalog:
    """The catalog of a warehouse (a directory, or a URI that lakelog.io knows). Raises what ``file_io_for`` raises."""
    return CATALOGS.create(kind, warehouse, file_io_for(warehouse, storage_options))


def identifier_of(name: str, database: str = "default") -> Identifier:
    """``t``, ``db.t`` or ``catalog.db.t`` as an identifier; raises InvalidRequest for anything else."""
    parts = [part.strip("`") for part in name.split(".")]
    if not all(parts) or len(parts) > 3:
        raise InvalidRequest(f"'{name}' is not a table name: write 'table', 'db.table' or 'catalog.db.table'")
    return Identifier(parts[-2] if len(parts) > 1 else database, parts[-1])


def open_by_name(
    warehouse: str,
    name: str,
    hints: Mapping[str, str],
    scope: str,
    storage_options: Mapping[str, str] | None = None,
) -> DynamicTable:
    """The table of this name; raises NotFound, InvalidOption for a hint that is unknown or out of place."""
    location = open_catalog(warehouse, storage_options=storage_options).load_table(identifier_of(name))
    return DynamicTable(location, canonical_options(hints, scope))


def open_by_path(
    path: str, hints: Mapping[str, str], scope: str, storage_options: Mapping[str, str] | None = None
) -> DynamicTable:
    """The table whose directory this is (``<warehouse>/<db>.db/<table>``)."""
    head, _, table = path.rstrip("/").rpartition("/")
    warehouse, _, database = head.rpartition("/")
    if not database.endswith(".db"):
        raise InvalidRequest(f"'{path}' is not a table's directory: it should end in '<db>.db/<table>'")
    return open_by_name(warehouse, f"{database.removesuffix('.db')}.{table}", hints, scope, storage_options)


def open_branch(table: DynamicTable, branch: str) -> DynamicTable:
    """A branch of a table with the branch's newest schema. Raises NotFound naming the branches."""
    location = replace(table.location, schema=table.store.branches.schema(branch))
    return DynamicTable(location, table.hints, branch)

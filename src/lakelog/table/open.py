"""Opens a table by its name in a warehouse, or by its directory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from lakelog.catalog import CATALOGS
from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import InvalidOption, InvalidRequest, NotFound, UnsupportedFeature, did_you_mean
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.io import file_io_for
from lakelog.io.storage.delegating import ExternalFileIO
from lakelog.options.catalog import CATALOG_EXTERNAL_PATHS, CATALOG_OPTIONS, CATALOG_TYPE, FOR_CALLERS
from lakelog.options.option import Options
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN,
    READ_CUT,
    SCAN_SNAPSHOT,
    SCAN_TAG,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.options.table import MERGE_ON_READ
from lakelog.table.model.dynamic_table import BRANCH_PREFIX, DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.read.base import TableScan
from lakelog.table.read.changes_scan import changes_of_options
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.located_scan import located_scan
from lakelog.table.read.log_range import log_range_scan
from lakelog.table.read.time_travel import as_of, millis_of, travel_to
from lakelog.table.read.union_scan import union_scan
from lakelog.table.system import SYSTEM_TABLES, UNREADABLE

Catalogs = Callable[[str], Catalog]
"""The catalog of a name in identifiers. Raises NotFound, InvalidRequest for an unknown one."""


def open_catalog(
    warehouse: str,
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
) -> Catalog:
    """The catalog of a warehouse (a directory, or a URI that lakelog.io supports).

    ``catalog_options`` set its type and the location of its names. Raises InvalidOption, NotInstalled, and the errors
    of ``file_io_for``.
    """
    options = CATALOG_OPTIONS.canonical(catalog_options or {}, "lake")
    kind = Options(options).need(CATALOG_TYPE)
    of_catalog = Options({k: v for k, v in options.items() if k not in FOR_CALLERS})
    io = file_io_for(warehouse, storage_options)
    roots = tuple(filter(None, map(str.strip, options.get(CATALOG_EXTERNAL_PATHS.key, "").split(","))))
    return CATALOGS.create(kind, warehouse, ExternalFileIO(io, roots) if roots else io, of_catalog)


_PART: Final = re.compile(r"(`(?:[^`]++|``)*+`)(?=\.|$)|([^.`]++)(?=\.|$)")
"""One part of a name, in backticks if it has a dot."""


def identifier_of(name: str, database: str = "default") -> Identifier:
    """``t``, ``db.t`` or ``catalog.db.t`` (as written) as an identifier; raises InvalidRequest for anything else."""
    found = [quoted or plain for quoted, plain in _PART.findall(name)]
    parts = [part[1:-1].replace("``", "`") if part.startswith("`") else part for part in found]
    if ".".join(found) != name or not all(parts) or not 1 <= len(parts) <= 3:
        raise InvalidRequest(f"'{name}' is not a table name: write 'table', 'db.table' or 'catalog.db.table'")
    return Identifier(parts[-2] if len(parts) > 1 else database, parts[-1], parts[0] if len(parts) > 2 else "")


def base_of(identifier: Identifier) -> Identifier:
    """The table that a name such as ``t$branch_dev$snapshots`` refers to."""
    return replace(identifier, table=identifier.table.partition("$")[0])


def open_table(
    catalog: Catalog,
    identifier: Identifier,
    hints: Mapping[str, str] | None = None,
    catalogs: Catalogs | None = None,
) -> DynamicTable:
    """The table, branch (``t$branch_<b>``) or system table (``t$<name>``, ``t$branch_<b>$<name>``) of this name.

    ``hints`` are canonical. ``catalogs`` finds the catalogs of the tables that it names, without only this one is
    known. Raises NotFound with the nearest name.
    """
    suffixes = identifier.table.split("$")[1:]
    location = catalog.load_table(base_of(identifier))
    table = DynamicTable(location, hints or {}, others=partial(_other, catalogs or partial(_only, catalog)))
    if suffixes and suffixes[0].startswith(BRANCH_PREFIX):
        table = _on_branch(table, suffixes.pop(0).removeprefix(BRANCH_PREFIX))
    if not suffixes:
        return table
    view = suffixes[0].lower()
    if view in UNREADABLE:
        raise UnsupportedFeature(f"system table '${view}' of {table.name} is not supported: use another engine")
    if len(suffixes) > 1 or view not in SYSTEM_TABLES:
        hint = did_you_mean(view, SYSTEM_TABLES, ".")
        raise NotFound(
            f"table {table.name} has no system table '{'$'.join(suffixes)}'{hint} Known: {', '.join(SYSTEM_TABLES)}"
        )
    return replace(table, view=view)


def _other(catalogs: Catalogs, name: str) -> DynamicTable:
    identifier = identifier_of(name)
    try:
        catalog = catalogs(identifier.catalog)
    except NotFound as why:  # the table may well be there
        raise InvalidRequest(f"table {name} cannot be opened: {why}") from None
    return open_table(catalog, identifier, catalogs=catalogs)


def _only(catalog: Catalog, name: str) -> Catalog:
    if name:
        raise InvalidRequest(f"catalog '{name}' is not known here: open the table with a lake that has this catalog")
    return catalog


def _on_branch(table: DynamicTable, branch: str) -> DynamicTable:
    if branch == MAIN_BRANCH:
        return table
    paths = replace(table.store.paths, branch=branch)
    newest = next(Schemas(table.io, paths).newest_first(), None)
    if newest is None:
        there = table.store.branches.list()
        raise NotFound(f"table {table.name} has no branch '{branch}'; it has: {', '.join(there) or 'none'}")
    return replace(table.with_schema(newest), branch=branch)


def open_by_name(
    warehouse: str,
    name: Identifier,
    hints: Mapping[str, str],
    scope: str,
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Catalogs | None = None,
) -> DynamicTable:
    """The table of a warehouse; raises NotFound, InvalidOption for a hint that is unknown or not allowed here.

    ``catalogs`` is that of ``open_table``.
    """
    catalog = open_catalog(warehouse, storage_options, catalog_options)
    return open_table(catalog, replace(name, catalog=""), canonical_options(hints, scope), catalogs)


def open_by_path(
    path: str,
    hints: Mapping[str, str],
    scope: str,
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Catalogs | None = None,
) -> DynamicTable:
    """The table whose directory this is (``<warehouse>/<db>.db/<table>``)."""
    warehouse, name = split_path(path)
    return open_by_name(warehouse, name, hints, scope, storage_options, catalog_options, catalogs)


def split_path(path: str) -> tuple[str, Identifier]:
    """The warehouse and the name of the table in a directory. Raises InvalidRequest if it is not like a table's."""
    head, _, table = path.rstrip("/").rpartition("/")
    warehouse, separator, database = head.rpartition("/")
    if not database.endswith(".db") or not table:
        raise InvalidRequest(f"'{path}' is not a table's directory: it should end in '<db>.db/<table>'")
    return warehouse or separator or ".", Identifier(database.removesuffix(".db"), table)


def scan_of(table: DynamicTable) -> TableScan:
    """The batch read of a table, branch or system table, according to the options of this use.

    Time travel shows the columns of that time. Raises NotFound, InvalidOption, and the errors of ``located_scan``.
    """
    return located_scan(_plain_scan(table))


def _plain_scan(table: DynamicTable) -> TableScan:
    is_merged = table.hints.get(MERGE_ON_READ.key) is not None and table.options.need(MERGE_ON_READ)
    if is_merged or READ_CUT.key in table.options:  # a cut has rows that no compaction has merged yet
        table = table.all_rows
    if table.view is not None:
        return SYSTEM_TABLES.create(table.view, table)
    changes = changes_of_options(table)
    if changes is not None:
        if READ_CUT.key in table.options:
            raise InvalidOption(f"'{READ_CUT.key}' is one moment, and the other options select changes: remove one")
        return changes
    snapshot = travel_to(table.store, table.options)
    if table.reads_log and not table.streams_log:
        return log_range_scan(table, snapshot)
    # a branch has no log, and a log of changes nothing that the files lack
    if snapshot is None and table.reads_union and table.branch == MAIN_BRANCH and not table.publishes:
        return union_scan(table)
    return Scan(table) if snapshot is None else Scan(as_of(table, snapshot), snapshot=snapshot)


def hints_of(
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: int | str | datetime | None = None,
    incremental_between: tuple[int | str, int | str] | None = None,
) -> dict[str, str]:
    """The arguments of ``Table.scan`` as the equivalent options. Raises InvalidRequest for two at once."""
    points = {
        SCAN_SNAPSHOT.key: None if snapshot_id is None else str(snapshot_id),
        SCAN_TAG.key: tag,
        SCAN_TIMESTAMP_MILLIS.key: None if timestamp is None else str(millis_of(timestamp)),
        INCREMENTAL_BETWEEN.key: None if incremental_between is None else ",".join(map(str, incremental_between)),
    }
    points_set = {key: value for key, value in points.items() if value is not None}
    if len(points_set) > 1:
        raise InvalidRequest("give one of snapshot_id, tag, timestamp and incremental_between, not several")
    return points_set

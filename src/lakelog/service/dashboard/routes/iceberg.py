"""A read-only Iceberg REST catalog: the tables that have Iceberg metadata (RFC 19).

Readers get the address ``<dashboard>/iceberg`` and, if the dashboard asks for one, a token. The prefix of a catalog in
the protocol is the name of a lakelog catalog. Source: Iceberg's REST catalog specification, ``rest-catalog-open-api``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from lakelog.errors import InvalidRequest, NotFound, UnsupportedFeature
from lakelog.filestore.iceberg.export import is_exported
from lakelog.filestore.iceberg.manifests import uri_of
from lakelog.filestore.iceberg.table_metadata import MetadataFiles
from lakelog.lake import Table
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import Dashboard, dashboard_of
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.syntax.lexer import quoted_name

api = APIRouter(prefix="/iceberg/v1", tags=["Iceberg REST catalog"], dependencies=[Depends(needs(Privilege.READ))])

Name = Annotated[str, Path(max_length=300)]
_NAMESPACES: Final = "/v1/{prefix}/namespaces"
_ENDPOINTS: Final = (
    f"GET {_NAMESPACES}",
    f"GET {_NAMESPACES}/{{namespace}}",
    f"HEAD {_NAMESPACES}/{{namespace}}",
    f"GET {_NAMESPACES}/{{namespace}}/tables",
    f"GET {_NAMESPACES}/{{namespace}}/tables/{{table}}",
    f"HEAD {_NAMESPACES}/{{namespace}}/tables/{{table}}",
)
NO_NAMESPACE, NO_TABLE = "NoSuchNamespaceException", "NoSuchTableException"


@api.get("/config")
def read_config(request: Request, warehouse: Annotated[str | None, Query(max_length=300)] = None) -> Response:
    """The catalog that a reader's ``warehouse`` names; without one, the first catalog."""
    names = dashboard_of(request).lake.list_catalogs()
    if warehouse and warehouse not in names:
        return _failure(404, "NoSuchWarehouseException", f"catalog '{warehouse}' does not exist: {', '.join(names)} do")
    prefix = {"prefix": warehouse or names[0]}
    return JSONResponse({"defaults": {}, "overrides": prefix, "endpoints": list(_ENDPOINTS)})


@api.get("/{prefix}/namespaces")
def list_namespaces(request: Request, prefix: Name, parent: str | None = None) -> Response:
    """The databases of a catalog; a database has none below it."""
    try:
        names = dashboard_of(request).lake.list_databases(prefix)
    except NotFound as why:
        return _failure(404, NO_NAMESPACE, str(why))
    return JSONResponse({"namespaces": [] if parent else [[name] for name in names]})


@api.get("/{prefix}/namespaces/{namespace}")
def read_namespace(request: Request, prefix: Name, namespace: Name) -> Response:
    """Returns whether a database exists."""
    if (missing := _missing(dashboard_of(request), prefix, namespace)) is not None:
        return missing
    return JSONResponse({"namespace": [namespace], "properties": {}})


@api.get("/{prefix}/namespaces/{namespace}/tables")
def list_exported_tables(request: Request, prefix: Name, namespace: Name) -> Response:
    """The tables of a database that have Iceberg metadata."""
    lake = dashboard_of(request).lake
    if (missing := _missing(dashboard_of(request), prefix, namespace)) is not None:
        return missing
    names = []
    for full_name in lake.list_tables(namespace, prefix):
        with suppress(UnsupportedFeature):  # a table with access rules has no metadata for others
            table = lake.table(full_name).logical
            names += [table.location.identifier.table] if is_exported(table.schema) else []
    return JSONResponse({"identifiers": [{"namespace": [namespace], "name": name} for name in names]})


@api.get("/{prefix}/namespaces/{namespace}/tables/{name}")
def load_table(request: Request, prefix: Name, namespace: Name, name: Name) -> Response:
    """The current Iceberg metadata of a table, and the file that has them."""
    if (missing := _missing(dashboard_of(request), prefix, namespace)) is not None:
        return missing
    try:
        if "$" in name:
            raise NotFound(f"'{name}' is no name of a table")
        table = dashboard_of(request).lake.table(".".join(map(quoted_name, (prefix, namespace, name))))
        location, metadata = _metadata(table)
    except (NotFound, InvalidRequest) as why:
        return _failure(404, NO_TABLE, str(why))
    return JSONResponse({"metadata-location": location, "metadata": metadata, "config": {}})


def _metadata(table: Table) -> tuple[str, dict[str, Any]]:
    """The address of a table's current metadata file, and its content. Raises NotFound."""
    store = table.logical.store
    files = MetadataFiles(store.io, store.paths)
    version = files.hint() if is_exported(table.logical.schema) else None
    if version is None:
        raise NotFound(
            f"table {table.name} has no Iceberg metadata: set 'metadata.iceberg.storage' = 'table-location', and write "
            "to it once"
        )
    path = files.path(version)
    return uri_of(path), orjson.loads(store.io.read(path))


def _missing(dashboard: Dashboard, catalog: str, database: str) -> Response | None:
    """The answer for a database that does not exist."""
    try:
        if database in dashboard.lake.list_databases(catalog):
            return None
        why = f"database '{database}' does not exist"
    except NotFound as failure:
        why = str(failure)
    return _failure(404, NO_NAMESPACE, why)


def _failure(status: int, kind: str, why: str) -> Response:
    """An error in the protocol's form."""
    return JSONResponse({"error": {"message": why, "type": kind, "code": status}}, status)

"""Names → where a table lies and what its schema is."""

from __future__ import annotations

from lakelog.catalog.base import Catalog
from lakelog.options.registry import Registry

CATALOGS: Registry[Catalog] = Registry(
    "catalog",
    {
        "filesystem": "lakelog.catalog.kinds.filesystem:FilesystemCatalog",
        "rest": "lakelog.catalog.kinds.rest:RestCatalog",
        "sql": "lakelog.catalog.kinds.sql:SqlCatalog",
    },
    {"sqlalchemy": "sql-catalog", "urllib3": "rest"},
)
"""Kind of catalog → its class, made of (warehouse, storage, its options but for the kind)."""

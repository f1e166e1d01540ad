"""Names → where a table lies and what its schema is."""

from __future__ import annotations

from lakelog.catalog.base import Catalog
from lakelog.options.registry import Registry

CATALOGS: Registry[Catalog] = Registry("catalog", {"filesystem": "lakelog.catalog.kinds.filesystem:FilesystemCatalog"})
"""Kind of catalog → its class."""

"""Catalogs: the location and schema of a table by its name."""

from __future__ import annotations

from lakelog.catalog.base import Catalog
from lakelog.options import parts
from lakelog.options.registry import Registry

CATALOGS: Registry[Catalog] = parts.CATALOGS
"""Kind of catalog → its class, constructed with (warehouse, storage, catalog options except the kind)."""

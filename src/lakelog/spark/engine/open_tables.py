"""The catalog interface that the Spark engine needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakelog.catalog.base import Identifier
from lakelog.table.catalog_config import CatalogConfig
from lakelog.table.model.dynamic_table import DynamicTable


class OpensTables(Protocol):
    """Opens tables by name in the catalogs of a session."""

    @property
    def configs(self) -> Mapping[str, CatalogConfig]:
        """The catalogs, by their names in identifiers."""

    def open(self, identifier: Identifier, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table of this name."""

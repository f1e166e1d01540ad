"""The configuration of a catalog: its warehouse, and the options of the storage and of the catalog itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lakelog.catalog import CATALOGS
from lakelog.catalog.base import Catalog
from lakelog.errors import InvalidOption
from lakelog.options.catalog import (
    CATALOG_EXTERNAL_PATHS,
    CATALOG_OPTIONS,
    CATALOG_TYPE,
    CATALOG_WAREHOUSE,
)
from lakelog.options.option import Declared, Options
from lakelog.options.storage import HADOOP_PREFIX, STORAGE_OPTIONS, is_storage_option
from lakelog.table.open import open_catalog

WAREHOUSE: Final = "warehouse"
_KNOWN: Final = Declared([*CATALOG_OPTIONS.options, *STORAGE_OPTIONS.options], [HADOOP_PREFIX])


@dataclass(frozen=True)
class CatalogConfig:
    """The location of a catalog and its access options; picklable. Options may be secrets, so they are not printed."""

    warehouse: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, given: Mapping[str, str]) -> CatalogConfig:
        """The configuration from one set of options: ``warehouse``, and options of storage and catalog by any name.

        Raises InvalidOption, without the value, for any other option, and if there is no warehouse.
        """
        options = {key: str(value) for key, value in given.items()}
        warehouse = options.pop(WAREHOUSE, "")
        if not warehouse:
            raise InvalidOption(
                f"catalog '{name}' needs the option '{WAREHOUSE}': a directory, or a URI such as 's3://bucket/warehouse'"
            )
        storage = {key: value for key, value in options.items() if is_storage_option(key)}
        catalog = {key: value for key, value in options.items() if key not in storage}
        _KNOWN.canonical({key: "…" for key in catalog if not CATALOG_OPTIONS.knows(key)}, "lake")
        return cls(warehouse, storage, catalog)

    def of_tables(self) -> CatalogConfig:
        """The configuration for readers of existing tables, which finds them by their directories.

        If a server commits to the tables, the configuration keeps the server and its name for the warehouse.
        """
        options = CATALOG_OPTIONS.canonical(self.catalog)
        kind = Options(options).need(CATALOG_TYPE)
        is_served = CATALOGS.load(kind).commits_by_server
        allowed = {key: value for key, value in options.items() if key == CATALOG_EXTERNAL_PATHS.key}
        return replace(self, catalog={CATALOG_WAREHOUSE.key: self.warehouse, **options} if is_served else allowed)

    def open(self) -> Catalog:
        """The catalog. Raises InvalidOption, NotInstalled, UnsupportedFeature for an unknown scheme."""
        return open_catalog(self.warehouse, self.storage, self.catalog)

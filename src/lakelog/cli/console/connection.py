"""Opens the warehouse of a command, by ``--warehouse`` and the file of ``--config``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from lakelog.cli.console.process import current_process
from lakelog.errors import InvalidOption, NotFound
from lakelog.lake import Lake
from lakelog.lake import connect as connect_lake
from lakelog.table.catalog_config import WAREHOUSE, CatalogConfig

_PARTS: Final = (WAREHOUSE, "options", "catalogs", "settings", "properties", "target")


@dataclass(frozen=True)
class WarehouseConfig:
    """The connection of a command: warehouse, options, additional catalogs, settings of Spark.

    ``properties`` are those of the client of a mirror, ``target`` the storage options of the other place of a backup or
    a replica.
    """

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def reached(self) -> CatalogConfig:
        """The warehouse with its options, divided into those of the storage and those of the catalog."""
        return CatalogConfig.of("of the configuration", {**self.options, WAREHOUSE: self.warehouse})


def connect(spark: Any = None, *, warehouse: str) -> Lake:
    """The lake of a warehouse, with the options of the configuration. Raises the errors of ``lakelog.connect``."""
    config = warehouse_config(warehouse)
    reached = config.reached
    return connect_lake(
        spark,
        warehouse=config.warehouse,
        settings=config.settings,
        storage_options=reached.storage,
        catalog_options=reached.catalog,
        catalogs=config.catalogs,
    )


def warehouse_config(warehouse: str) -> WarehouseConfig:
    """The connection to the given warehouse (``--warehouse``, LAKELOG_WAREHOUSE), otherwise to that of the file."""
    file = current_process().config
    return WarehouseConfig(warehouse) if file is None else _read(file, warehouse)


def target_options(warehouse: str) -> Mapping[str, str] | None:
    """The storage options of the other place, None for those of the warehouse."""
    return warehouse_config(warehouse).target or None


def _read(file: Path, warehouse: str) -> WarehouseConfig:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"the configuration '{file}' does not exist: create it, or name another file") from None
    except (OSError, ValueError) as why:
        raise InvalidOption(f"the configuration '{file}' cannot be read: {why}") from None
    others = sorted(set(content) - set(_PARTS))
    if others:
        raise InvalidOption(
            f"the configuration '{file}' has the unknown part '{others[0]}'; known: {', '.join(_PARTS)}"
        )
    catalogs = _table(file, "catalogs", content)
    return WarehouseConfig(
        warehouse if _is_explicit() else str(content.get(WAREHOUSE, warehouse)),
        _texts(_table(file, "options", content)),
        {name: _texts(_table(file, name, catalogs)) for name in catalogs},
        _texts(_table(file, "settings", content)),
        _texts(_table(file, "properties", content)),
        _texts(_table(file, "target", content)),
    )


def _is_explicit() -> bool:
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("warehouse")
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _table(file: Path, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    part = values.get(name, {})
    if not isinstance(part, dict):
        raise InvalidOption(f"'{name}' in the configuration '{file}' must be a table: [{name}]")
    return part


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Options as text; TOML's true becomes ``true``, and keys with dots need no quotes."""
    out: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            out |= {f"{key}.{inner}": text for inner, text in _texts(value).items()}
        else:
            out[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return out

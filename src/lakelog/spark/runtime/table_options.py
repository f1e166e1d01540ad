"""What a reader or writer by ``format("lakelog")`` is given to find a table's storage again."""

from __future__ import annotations

from typing import Final

from lakelog.table.model.dynamic_table import DynamicTable

CATALOG_OPTION: Final = "catalog"
"""Names the catalog whose storage options reach the table."""


def options_of(table: DynamicTable) -> dict[str, str]:
    """The table's options for this use, and its catalog where that is not the session's first one."""
    catalog = table.location.identifier.catalog
    return {**table.hints, **({CATALOG_OPTION: catalog} if catalog else {})}

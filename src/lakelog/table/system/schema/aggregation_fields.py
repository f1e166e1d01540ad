"""``$aggregation_fields``: the columns with their aggregate functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.paimon.types.types import type_text
from lakelog.table.system.metadata import TEXT, Columns, MetadataTable, needed


class AggregationFields(MetadataTable):
    """One row per column, with the keys and values of its options ``fields.<column>.…``."""

    COLUMNS: ClassVar[Columns] = (
        ("field_name", needed(TEXT)),
        ("field_type", needed(TEXT)),
        ("function", TEXT),
        ("function_options", TEXT),
        ("comment", TEXT),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The columns."""
        given: dict[str, list[tuple[str, str]]] = {}
        for key, value in self.table.schema.options.items():
            parts = key.split(".")
            if len(parts) > 2 and parts[0] == "fields":
                given.setdefault(parts[1], []).append((key, value))
        for field in self.table.schema.fields:
            options = given.get(field.name, [])
            values = "[" + ", ".join(value for _, value in options) + "]"
            keys = "[" + ", ".join(key for key, _ in options) + "]"
            yield field.name, type_text(field.type), values, keys, field.description

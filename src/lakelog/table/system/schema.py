"""System tables of schemas and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from lakelog.options.log import shown_value
from lakelog.paimon.types.java_hash_order import in_hash_order
from lakelog.paimon.types.types import type_text
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class AggregationFields(MetadataTable):
    """One row per column, with the keys and values of its options ``fields.<column>.…``."""

    COLUMNS: ClassVar[Columns] = (
        ("field_name", needed(TEXT)), ("field_type", needed(TEXT)), ("function", TEXT),
        ("function_options", TEXT), ("comment", TEXT),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        pairs: dict[str, list[tuple[str, str]]] = {}
        for key, value in self.table.schema.options.items():
            parts = key.split(".")
            if len(parts) > 2 and parts[0] == "fields":
                pairs.setdefault(parts[1], []).append((key, value))
        for field in self.table.schema.fields:
            options = pairs.get(field.name, [])
            values = "[" + ", ".join(value for _, value in options) + "]"
            keys = "[" + ", ".join(key for key, _ in options) + "]"
            yield field.name, type_text(field.type), values, keys, field.description


class TableOptions(MetadataTable):
    """One row per explicit option; secrets are masked."""

    COLUMNS: ClassVar[Columns] = (("key", needed(TEXT)), ("value", needed(TEXT)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((key, shown_value(key, value)) for key, value in self.table.schema.options.items())


class AllSchemas(MetadataTable):
    """One row per schema, oldest first. Columns, keys and options are JSON; secrets are masked."""

    COLUMNS: ClassVar[Columns] = (
        ("schema_id", needed(LONG)), ("fields", needed(TEXT)), ("partition_keys", needed(TEXT)),
        ("primary_keys", needed(TEXT)), ("options", needed(TEXT)), ("comment", TEXT),
        ("update_time", needed(TIME)),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for schema in sorted(self.table.store.schemas.newest_first(), key=lambda schema: schema.id):
            yield (
                schema.id, _json([field.to_json() for field in schema.fields]), _json(schema.partition_keys),
                _json(schema.primary_keys),
                _json({key: shown_value(key, schema.options[key]) for key in in_hash_order(schema.options)}),
                schema.comment, local_time(schema.time_millis),
            )  # fmt: skip


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

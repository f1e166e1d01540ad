"""``$schemas``: the schemas that the table has had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from lakelog.options.log import shown_value
from lakelog.paimon.types.java_hash_order import in_hash_order
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class AllSchemas(MetadataTable):
    """One row per schema, oldest first. Columns, keys and options are JSON; secrets are masked."""

    COLUMNS: ClassVar[Columns] = (
        ("schema_id", needed(LONG)),
        ("fields", needed(TEXT)),
        ("partition_keys", needed(TEXT)),
        ("primary_keys", needed(TEXT)),
        ("options", needed(TEXT)),
        ("comment", TEXT),
        ("update_time", needed(TIME)),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The schemas."""
        for schema in sorted(self.table.store.schemas.newest_first(), key=lambda schema: schema.id):
            yield (
                schema.id,
                _json([field.to_json() for field in schema.fields]),
                _json(schema.partition_keys),
                _json(schema.primary_keys),
                _json({key: shown_value(key, schema.options[key]) for key in in_hash_order(schema.options)}),
                schema.comment,
                local_time(schema.time_millis),
            )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

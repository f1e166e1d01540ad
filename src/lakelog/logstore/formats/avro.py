"""``avro``: Debezium's envelope in Avro with the ids of a schema registry, as Kafka Connect and Flink have it.

A value is the record ``before``, ``after``, ``op`` of the schema that the subject ``<topic>-value`` has; a key is the
record of the primary key, of ``<topic>-key``. Types are those of Avro: decimals in bytes, ``date``, ``time-millis``,
``timestamp-…`` for moments and ``local-timestamp-…`` for times without a zone. A map whose keys are not text is an
array of ``key`` and ``value``. VARIANT is JSON in a string. Each column may be null, with null as its default, so an
added or a dropped column is compatible in both directions.

The operations are those of ``debezium-json``. Records of a connector are read, too (``encoding/avro_changes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.fileformat.messages.columns import Messages
from lakelog.fileformat.messages.encoded import encoded_rows, joined
from lakelog.fileformat.messages.rows import message_schema
from lakelog.logstore.base import Records
from lakelog.logstore.encoding.avro_changes import (
    HEAD_BYTES,
    head_of,
    image_fields,
    read_changes,
    read_keys,
    schema_id,
)
from lakelog.logstore.encoding.changes import changed_rows
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.encoding.schema_registry import SchemaRegistry
from lakelog.logstore.encoding.update_pairs import second_of_pair
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER

_NO_ROW: Final = pa.scalar(b"\0", pa.large_binary())
_IS_ROW: Final = pa.scalar(b"\2", pa.large_binary())
_OPS: Final = pa.array([b"\2c", b"\2d", b"\2u"], pa.large_binary())
_INVERSE: Final = {"c": "d", "d": "c", "u": "u"}


class Avro(LogFormat):
    """See the module. Without a registry, each use raises InvalidOption, which names the option."""

    def __init__(self, registry: SchemaRegistry | None = None, topic: str = "") -> None:
        self._given, self._topic = registry, topic

    def of_table(self, options: Options, topic: str) -> LogFormat:
        return Avro(SchemaRegistry.of(options), topic)

    @property
    def _registry(self) -> SchemaRegistry:
        return SchemaRegistry.of(Options()) if self._given is None else self._given

    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        key_texts = self._keys(rows.select(list(keys))) if keys else None
        second = second_of_pair(kinds, None if key_texts is None else pl.Series(key_texts))
        first = np.zeros(len(kinds), dtype=bool)
        first[:-1] = second[1:]
        kept = np.flatnonzero(~first)
        if mode == "upsert":
            second[:] = False
        number = self._registry.register(f"{self._topic}-value", _envelope_of(message_schema(rows.schema, "Value")))
        images = joined(_IS_ROW, encoded_rows(rows))
        is_added, is_pair = np.isin(kinds[kept], (INSERT, UPDATE_AFTER)), second[kept]
        before = pc.if_else(
            pa.array(is_pair | ~is_added), images.take(pa.array(np.where(is_pair, kept - 1, kept))), _NO_ROW
        )
        after = pc.if_else(pa.array(is_added), images.take(pa.array(kept)), _NO_ROW)
        op = _OPS.take(pa.array(np.where(is_pair, 2, np.where(is_added, 0, 1))))
        values = joined(pa.scalar(head_of(number), pa.large_binary()), before, after, op)
        chosen = pa.nulls(len(kept), pa.large_binary()) if key_texts is None else key_texts.take(pa.array(kept))
        return Records(chosen, values, header), kept

    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        return changed_rows(read_changes(values, schema, self._registry), schema)

    def lacking(self, values: pa.LargeBinaryArray, names: Sequence[str]) -> list[frozenset[str]]:
        return [self._lacking(value, names) for value in values.to_pylist()]

    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        return read_keys(keys, schema, self._registry)

    def inverse(self, value: bytes) -> bytes:
        messages, change = self._read(value)
        change |= {"before": change["after"], "after": change["before"], "op": _INVERSE[change["op"]]}
        return value[:HEAD_BYTES] + messages.messages([change])[0]

    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        messages, change = self._read(value)
        before, after = (
            None
            if change.get(name) is None
            else value[:HEAD_BYTES] + messages.of_field(name).messages([change[name]])[0]
            for name in ("before", "after")
        )
        return before, after

    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        op = "d" if after is None else "c" if before is None else "u"
        images = {
            name: None if image is None else self._schema_of(image).of_field(name).records([image[HEAD_BYTES:]])[0]
            for name, image in (("before", before), ("after", after))
        }
        either = after or before or b""
        return either[:HEAD_BYTES] + self._schema_of(either).messages([{**images, "op": op}])[0]

    def _lacking(self, value: bytes, names: Sequence[str]) -> frozenset[str]:
        try:
            known = {name.lower() for name in image_fields(self._registry, schema_id(value))}
            lacks = frozenset(name for name in names if name.lower() not in known)
            has_row = bool(lacks) and self._read(value)[1].get("after") is not None
        except Corrupt:
            return frozenset()
        return lacks if has_row else frozenset()

    def _keys(self, rows: pa.RecordBatch) -> pa.LargeBinaryArray:
        number = self._registry.register(f"{self._topic}-key", message_schema(rows.schema, "Key"))
        return joined(pa.scalar(head_of(number), pa.large_binary()), encoded_rows(rows))

    def _schema_of(self, value: bytes) -> Messages:
        return _messages_of(self._registry, schema_id(value))

    def _read(self, value: bytes) -> tuple[Messages, dict[str, Any]]:
        messages = self._schema_of(value)
        return messages, messages.records([value[HEAD_BYTES:]])[0]


def _envelope_of(schema: Any) -> Any:
    fields = [
        {"name": "before", "type": ["null", schema], "default": None},
        {"name": "after", "type": ["null", schema["name"]], "default": None},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "lakelog", "fields": fields}


@lru_cache(maxsize=128)
def _messages_of(registry: SchemaRegistry, number: int) -> Messages:
    return Messages(registry.schema(number))

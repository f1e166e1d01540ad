"""``debezium-json``: value ``{"before":…,"after":…,"op":"c|u|d"}``, key the JSON object of the primary key.

Flink's debezium-json, Debezium's and Spark's own JSON readers can read it. Encoding of types (Flink's defaults,
lossless): timestamps ``2024-01-31 23:59:59.123456`` (with a zone: UTC with a trailing ``Z``), dates ``2024-01-31``,
times ``23:59:59.123``, decimals as text (``"12.50"``: JSON readers that parse numbers as doubles would lose digits),
binary as base64, NaN and infinities as text, maps with text keys as objects and others as arrays of
``{"key":…,"value":…}``.

Operations: mode all: +I → c; -U followed by the +U of the same key → one u with both images; a lone -U → d, a lone +U
→ c; -D → d. Mode upsert: +I and +U → c without a before-image (Flink's reader refuses a u without one), -D and a
lone -U → d.

Records of a Debezium connector are read, too, with or without its schema (``encoding/debezium_changes.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from lakelog.logstore.base import Records
from lakelog.logstore.encoding.changes import changed_rows
from lakelog.logstore.encoding.connect_columns import Encodings
from lakelog.logstore.encoding.debezium_changes import read_changes
from lakelog.logstore.encoding.json_rows import parsed_column, parsed_object, read_objects, read_type, to_json_texts
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.encoding.update_pairs import second_of_pair
from lakelog.options.debezium import DECIMAL_MODE, TIME_MODE
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER

_UNKNOWN: Final = Encodings()


class DebeziumJson(LogFormat):
    """See the module. ``encodings`` says how records of a connector without schemas are encoded."""

    spark_decodes: ClassVar[bool] = True

    def __init__(self, encodings: Encodings = _UNKNOWN) -> None:
        self._encodings = encodings

    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        texts = to_json_texts(rows)
        key_texts = to_json_texts(rows.select(list(keys))) if keys else None
        second = second_of_pair(kinds, key_texts)
        first = np.zeros(len(kinds), dtype=bool)
        first[:-1] = second[1:]
        kept = np.flatnonzero(~first)
        if mode == "upsert":
            second[:] = False
        values = _values(texts, kinds, second, kept)
        chosen_keys = pa.nulls(len(kept), pa.large_binary()) if key_texts is None else _bytes(key_texts.gather(kept))
        return Records(chosen_keys, values, header), kept

    def of_table(self, options: Options, topic: str) -> LogFormat:
        modes = (options.get_typed(option) or "" for option in (DECIMAL_MODE, TIME_MODE))
        return DebeziumJson(Encodings(*modes))

    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        return changed_rows(read_changes(values, schema, self._encodings), schema)

    def lacking(self, values: pa.LargeBinaryArray, names: Sequence[str]) -> list[frozenset[str]]:
        by_fold = {name.lower(): name for name in names}
        return [
            frozenset(by_fold[name] for name in by_fold.keys() - _new_names(v, by_fold)) for v in values.to_pylist()
        ]

    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        read = read_objects(keys, pa.schema([pa.field(f.name, read_type(f.type)) for f in schema]))
        columns = [parsed_column(read.column(f.name).combine_chunks(), f.type) for f in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def inverse(self, value: bytes) -> bytes:
        change = parsed_object(value)
        change["before"], change["after"] = change["after"], change["before"]
        change["op"] = {"c": "d", "d": "c", "u": "u"}[change["op"]]
        return orjson.dumps(change)

    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        change = parsed_object(value)
        change = change.get("payload") or change  # of a connector
        return _image(change.get("before")), _image(change.get("after"))

    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        op = b"d" if after is None else b"c" if before is None else b"u"
        return b'{"before":' + (before or b"null") + b',"after":' + (after or b"null") + b',"op":"' + op + b'"}'


def _new_names(value: bytes, known: Mapping[str, str]) -> Collection[str]:
    """The names in the new row of a value, in lower case; all known ones if it has none, or cannot be read."""
    try:
        change = orjson.loads(value)
        after = (change.get("payload") or change).get("after")
        return known if after is None else {name.lower() for name in after}
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return known


def _image(image: Any) -> bytes | None:
    return None if image is None else orjson.dumps(image, option=orjson.OPT_SORT_KEYS)


def _values(texts: pl.Series, kinds: np.ndarray, second: np.ndarray, kept: np.ndarray) -> pa.LargeBinaryArray:
    kind, pair = kinds[kept], second[kept]
    added = (kind == INSERT) | (kind == UPDATE_AFTER)
    this = texts.gather(kept)
    if added.all() and not pair.any():
        parts = [pl.lit('{"before":null,"after":'), pl.col("this"), pl.lit(',"op":"c"}')]
        frame = pl.DataFrame({"this": this})
    else:
        frame = pl.DataFrame(
            {
                "this": this,
                "before": texts.gather(np.where(pair, kept - 1, kept)),
                "pair": pair,
                "added": added,
            }
        )
        null = pl.lit("null")
        has_before = pl.col("pair") | ~pl.col("added")
        op = pl.when("pair").then(pl.lit("u")).when("added").then(pl.lit("c")).otherwise(pl.lit("d"))
        parts = [
            pl.lit('{"before":'),
            pl.when(has_before).then(pl.col("before")).otherwise(null),
            pl.lit(',"after":'),
            pl.when("added").then(pl.col("this")).otherwise(null),
            pl.lit(',"op":"'),
            op,
            pl.lit('"}'),
        ]
    return _bytes(frame.select(pl.concat_str(parts)).to_series())


def _bytes(texts: pl.Series) -> pa.LargeBinaryArray:
    out = texts.to_arrow()
    if isinstance(out, pa.ChunkedArray):
        out = out.combine_chunks()
    return out.cast(pa.large_string()).cast(pa.large_binary())

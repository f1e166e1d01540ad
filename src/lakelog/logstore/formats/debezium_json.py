"""``debezium-json``: value ``{"before":…,"after":…,"op":"c|u|d"}``, key the JSON object of the primary key.

Flink's debezium-json, Debezium's and Spark's own JSON readers can read it. Encoding of types (Flink's defaults,
lossless): timestamps ``2024-01-31 23:59:59.123456`` (with a zone: UTC with a trailing ``Z``), dates ``2024-01-31``,
times ``23:59:59.123``, decimals as text (``"12.50"``: JSON readers that parse numbers as doubles would lose digits),
binary as base64, NaN and infinities as text, maps with text keys as objects and others as arrays of
``{"key":…,"value":…}``.

Operations: mode all: +I → c; -U followed by the +U of the same key → one u with both images; a lone -U → d, a lone +U
→ c; -D → d. Mode upsert: +I and +U → c without a before-image (Flink's reader refuses a u without one), -D and a
lone -U → d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from lakelog.errors import Corrupt
from lakelog.logstore.base import Records
from lakelog.logstore.encoding.json_rows import parsed_column, plain_rows, read_type, restored, to_json_texts
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.encoding.update_pairs import second_of_pair
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE

_OPS = pa.array(["c", "u", "d"])
_CREATE, _UPDATE, _DELETE = 0, 1, 2


class DebeziumJson(LogFormat):
    """See the module."""

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

    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        image = pa.struct([pa.field(f.name, read_type(f.type)) for f in schema])
        wanted = pa.schema([("before", image), ("after", image), ("op", pa.string())])
        read = _read(values, wanted)
        before, after = read.column("before").combine_chunks(), read.column("after").combine_chunks()
        op = pc.index_in(read.column("op").combine_chunks(), value_set=_OPS)
        if op.null_count:
            bad = pc.index(pc.is_null(op), pa.scalar(True)).as_py()
            raise Corrupt(f"log value {bytes(values[bad].as_py())[:200]!r} is not debezium-json with op c, u or d")
        return _rows(before, after, op.to_numpy(zero_copy_only=False), schema)

    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        read = _read(keys, pa.schema([pa.field(f.name, read_type(f.type)) for f in schema]))
        columns = [parsed_column(read.column(f.name).combine_chunks(), f.type) for f in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def inverse(self, value: bytes) -> bytes:
        change = orjson.loads(value)
        change["before"], change["after"] = change["after"], change["before"]
        change["op"] = {"c": "d", "d": "c", "u": "u"}[change["op"]]
        return orjson.dumps(change)

    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        change = orjson.loads(value)
        return _image(change["before"]), _image(change["after"])

    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        op = b"d" if after is None else b"c" if before is None else b"u"
        return b'{"before":' + (before or b"null") + b',"after":' + (after or b"null") + b',"op":"' + op + b'"}'


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


def _read(values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
    """Parses one JSON object per value with pyarrow, or in Python if pyarrow cannot (maps, NaN as text)."""
    if all(_fast(f.type) for f in schema):
        lines = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        try:
            joined = pc.binary_join(lines, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()
            found = arrow_json.read_json(
                pa.BufferReader(joined),
                read_options=arrow_json.ReadOptions(
                    use_threads=False, block_size=max(1 << 20, min(joined.size, 1 << 26))
                ),
                parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            found = None
        if found is not None and found.num_rows == len(values):
            return found
    return plain_rows([_object(v) for v in values.to_pylist()], schema)


def _object(value: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as wrong:
        raise Corrupt(f"log value {value[:200]!r} is not JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise Corrupt(f"log value {value[:200]!r} is not a JSON object")
    return found


def _fast(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return False
    if pa.types.is_struct(kind):
        return all(_fast(f.type) for f in kind)
    return _fast(kind.value_type) if pa.types.is_list(kind) else True


def _rows(before: pa.StructArray, after: pa.StructArray, op: np.ndarray, schema: pa.Schema) -> pa.Table:
    has_before = (op != _CREATE) & before.is_valid().to_numpy(zero_copy_only=False)
    has_after = (op != _DELETE) & after.is_valid().to_numpy(zero_copy_only=False)
    removed, added = np.flatnonzero(has_before), np.flatnonzero(has_after)
    kinds = np.concatenate(
        [
            np.where(op[removed] == _UPDATE, UPDATE_BEFORE, DELETE),
            np.where(op[added] == _UPDATE, UPDATE_AFTER, INSERT),
        ]
    )
    order = np.argsort(np.concatenate([removed * 2, added * 2 + 1]), kind="stable")
    columns = []
    for index, field in enumerate(schema):
        if len(removed):
            parts = [before.field(index).take(pa.array(removed)), after.field(index).take(pa.array(added))]
            column = pa.concat_arrays(parts).take(pa.array(order))
        else:
            column = after.field(index) if len(added) == len(op) else after.field(index).take(pa.array(added))
        columns.append(parsed_column(column, field.type))
    names = pa.array(NAMES).take(pa.array(kinds[order]))
    return pa.Table.from_arrays([*columns, names], names=[*schema.names, ROW_KIND_COLUMN])


__all__ = ["DebeziumJson", "restored"]

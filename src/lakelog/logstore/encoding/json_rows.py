"""Conversion between Arrow rows and JSON texts; vectorised by polars and pyarrow, in Python for maps and NaN."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.paimon.types.exact_casts import check_digits, check_float, exact_cast, has_decimals, wide_type
from lakelog.paimon.types.text_decimals import decimals_from_text
from lakelog.paimon.types.variant import from_json_texts, is_variant, json_texts
from lakelog.paimon.types.variant_bytes import from_json, to_json

_LONG_NUMBER = r"[0-9.]{20,}[eE]|[0-9.][eE][+-]?0*(?:19|[2-9][0-9]|[1-9][0-9]{2,})|[0-9.]{38}"
_ESCAPED_DIGIT = r"\\u00(?:2[bBdDeE]|3[0-9]|[46]5)"
_LONG_VALUE = rf'[:\[,]\s*"?[+-]?[0-9.]*(?:{_LONG_NUMBER})|{_ESCAPED_DIGIT}'
"""Numbers that pyarrow's reader may read outside of its table of powers (``paimon/types/text_decimals``)."""
_PER_SECOND = {"D": 1, "s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400
_MOMENT = re.compile(r"[+-]?[0-9]{4,9}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,9})?)?)?")
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?$")
"""Of a time of day, which follows its date after ten characters."""
_DIGITS = {"s": 0, "ms": 3, "us": 6}
_SECOND = {"s": "", "ms": "%.3f", "us": "%.6f", "ns": "%.9f"}


def to_json_texts(rows: pa.RecordBatch) -> pl.Series:
    """One JSON object per row, with all columns in order, including nulls."""
    rows = _with_json(rows)
    if all(_vectorised(f.type) for f in rows.schema) and not _has_odd_floats(rows):
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        named = [_text(pl.col(f.name), f.type).alias(f.name) for f in rows.schema]
        return frame.select(pl.struct(named).struct.json_encode()).to_series()
    fields = list(rows.schema)
    objects = ({f.name: _plain(row[f.name], f.type) for f in fields} for row in rows.to_pylist())
    return pl.Series([orjson.dumps(o).decode() for o in objects], dtype=pl.String)


def _with_json(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with JSON texts in place of VARIANT columns."""
    for at, field in enumerate(rows.schema):
        if is_variant(field.type):
            texts = json_texts(rows.column(at), exact=True)
            rows = rows.set_column(at, pa.field(field.name, texts.type), texts)
    return rows


def _vectorised(kind: pa.DataType) -> bool:
    nested = pa.types.is_nested(kind)
    return not nested or (pa.types.is_list(kind) and _is_simple(kind.value_type))


def _is_simple(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _has_odd_floats(rows: pa.RecordBatch) -> bool:
    for column, field in zip(rows.columns, rows.schema, strict=True):
        if (
            pa.types.is_floating(field.type)
            and not pc.all(pc.is_finite(column)).as_py()
            and column.null_count < len(column)
        ):
            return True
    return False


def _text(column: pl.Expr, kind: pa.DataType) -> pl.Expr:
    if pa.types.is_timestamp(kind):
        texts = column.dt.replace_time_zone(None) if kind.tz is None else column.dt.convert_time_zone("UTC")
        return texts.dt.to_string(f"%Y-%m-%d %H:%M:%S{_SECOND[kind.unit]}{'' if kind.tz is None else 'Z'}")
    if pa.types.is_date(kind):
        return column.dt.to_string("%Y-%m-%d")
    if pa.types.is_time(kind):
        return column.dt.to_string(f"%H:%M:%S{_SECOND[kind.unit]}")
    if pa.types.is_decimal(kind):
        return column.cast(pl.String)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return column.bin.encode("base64")
    return column


def _plain(value: Any, kind: pa.DataType) -> Any:
    """One value in a form that orjson can serialize."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if pa.types.is_list(kind):
        return [_plain(v, kind.value_type) for v in value]
    if is_variant(kind):
        return to_json(value["value"], value["metadata"], exact=True)
    if pa.types.is_struct(kind):
        return {f.name: _plain(value[f.name], f.type) for f in kind}
    if pa.types.is_map(kind):
        pairs = [(_plain(k, kind.key_type), _plain(v, kind.item_type)) for k, v in value]
        if pa.types.is_string(kind.key_type):
            return dict(pairs)
        return [{"key": k, "value": v} for k, v in pairs]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool | int | str):
        return value
    frame = pl.from_arrow(pa.table({"v": pa.array([value], kind)}))
    assert isinstance(frame, pl.DataFrame)
    return frame.select(_text(pl.col("v"), kind)).item()


def read_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is read from JSON before ``parsed_column`` converts it."""
    as_text = pa.types.is_date(kind) or pa.types.is_time(kind)
    as_text = as_text or is_variant(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    if as_text:
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(read_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, read_type(f.type)) for f in kind])
    return wide_type(kind)


def parsed_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column read from JSON, converted to its own type."""
    if column.type == kind:
        return column
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return decoded_base64(column).cast(kind)
    if is_variant(kind):
        return variants(column)
    if pa.types.is_date(kind):
        return dates(column, kind)
    if pa.types.is_time(kind):
        return times(column, kind)
    if pa.types.is_nested(kind) and column.type != wide_type(kind):
        return pa.array([restored(v, kind) for v in column.to_pylist()], kind)
    return exact_cast(column, kind)


def decoded_base64(texts: pa.Array) -> pa.LargeBinaryArray:
    """The bytes that base64 text encodes."""
    series = pl.from_arrow(texts)
    assert isinstance(series, pl.Series)
    return series.str.decode("base64").to_arrow().cast(pa.large_binary())


def variants(texts: pa.Array) -> pa.Array:
    """VARIANT values from JSON texts. Raises Corrupt."""
    try:
        return from_json_texts(texts)
    except InvalidRequest as why:
        raise Corrupt(str(why)) from None


def dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Dates from text like 2024-01-31, of any year."""
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _number(text, kind) for text in texts.to_pylist()], kind)


def _number(text: str, kind: pa.DataType) -> int:
    """A date or timestamp of any year, as Arrow stores it; Arrow's own parser supports four-digit years only."""
    unit = "D" if pa.types.is_date(kind) else kind.unit
    offset, ahead_s = _OFFSET.search(text, 12), 0
    if offset is not None:
        if pa.types.is_date(kind):
            raise ValueError(f"{text!r} is a moment, and not a date")
        sign, hours, minutes = offset.groups()
        text, ahead_s = text[: offset.start()], int(f"{sign}1") * (3600 * int(hours) + 60 * int(minutes or 0))
    text = text.removesuffix("Z")
    if not _MOMENT.fullmatch(text) or len(text.rstrip("0").partition(".")[2]) > _DIGITS.get(unit, 9):
        raise ValueError(f"{text!r} is not a value of type {kind}")
    whole_s = int(np.array(text, "datetime64[s]").astype(np.int64))  # numpy's numbers of finer units wrap
    if abs(whole_s) >= 2**63 // _PER_SECOND[unit] - _DAY_S:
        raise ValueError(f"{text!r} is out of range of {kind}")
    return int(np.array(text, f"datetime64[{unit}]").astype(np.int64)) - ahead_s * _PER_SECOND[unit]


def times(texts: pa.Array | pa.Scalar, kind: pa.DataType) -> pa.Array | pa.Scalar:
    """Times of day from text, parsed with a dummy date, because Arrow does not parse bare times."""
    texts_with_day = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
    return pc.cast(pc.cast(texts_with_day, pa.timestamp(kind.unit)), kind)


def restored(value: Any, kind: pa.DataType) -> Any:
    """One JSON value in a form that ``pa.array`` accepts for the type."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [restored(v, kind.value_type) for v in value]
    if is_variant(kind):
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not JSON in a text, which a VARIANT needs")
        return dict(zip(("value", "metadata"), from_json(value), strict=True))
    if pa.types.is_struct(kind):
        return {f.name: restored(value.get(f.name), f.type) for f in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else [(p["key"], p["value"]) for p in value]
        return [(restored(k, kind.key_type), restored(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_floating(kind):
        return check_float(float(value), kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    if isinstance(value, int | float) and (pa.types.is_timestamp(kind) or pa.types.is_time(kind)):
        raise ValueError(f"{value} is a number of unknown unit, and {kind} needs text")
    if isinstance(value, Digits) and pa.types.is_decimal(kind):
        value = value.text
    if isinstance(value, float) and not value.is_integer():  # Arrow cuts the fraction
        raise ValueError(f"{value} is not a value of type {kind}")
    if isinstance(value, str) and not pa.types.is_string(kind):
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return _number(value, kind)
        if pa.types.is_decimal(kind):
            return decimals_from_text(pa.array([value]), kind)[0].as_py()
        scalar = pa.scalar(value)
        return (times(scalar, kind) if pa.types.is_time(kind) else pc.cast(scalar, kind)).as_py()
    return value


def read_objects(values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
    """Parses one JSON object per value with pyarrow, or in Python if pyarrow cannot (maps, NaN as text)."""
    rows = read_lines(values, schema)
    return plain_rows([parsed_object(v) for v in values.to_pylist()], schema) if rows is None else rows


def read_lines(values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table | None:
    """Parses one JSON object per value with pyarrow; None if it cannot, or if a value has another type."""
    if not all(_fast(f.type) for f in schema):
        return None
    if not _is_utf8(values) or pc.any(pc.match_substring_regex(values, r"^\s*null")).as_py():
        return None  # pyarrow's reader ends the process if a part begins with null
    if has_decimals(pa.struct(list(schema))) and pc.any(pc.match_substring_regex(values, _LONG_VALUE)).as_py():
        return None  # see there
    lines = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    try:
        joined = pc.binary_join(lines, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()
        rows = check_digits(
            arrow_json.read_json(
                pa.BufferReader(joined),
                # one block: its size is allocated for a few records, too
                read_options=arrow_json.ReadOptions(
                    use_threads=False, block_size=max(1 << 16, min(joined.size, 1 << 26))
                ),
                parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        )
    except pa.ArrowInvalid:
        return None
    return rows if rows.num_rows == len(values) else None


def _is_utf8(values: pa.LargeBinaryArray) -> bool:
    """Whether all values are UTF-8, which pyarrow's reader of JSON does not check."""
    try:
        values.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def has_long_decimals(data: bytes, schema: pa.Schema) -> bool:
    """True if JSON may have a number that pyarrow's reader must not read as a decimal."""
    return has_decimals(pa.struct(list(schema))) and re.search(_LONG_VALUE.encode(), data) is not None


def parsed_object(value: bytes) -> dict[str, Any]:
    """A JSON object, parsed. Raises Corrupt for anything else."""
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as wrong:
        raise Corrupt(f"log value {value[:200]!r} is not JSON: {wrong}") from None
    if not isinstance(parsed, dict):
        raise Corrupt(f"log value {value[:200]!r} is not a JSON object")
    return parsed


class Digits(float):
    """A number of JSON with a fraction or an exponent, and its text."""

    def __new__(cls, text: str) -> Digits:
        number = super().__new__(cls, text)
        if math.isinf(number):
            raise ValueError(f"{text[:50]} is too large for a number of JSON")
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a JSON object. Raises ValueError if two have one name: nobody knows which of them counts."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field '{next(name for name in names if names.count(name) > 1)}' comes twice")
    return fields


def exact_object(value: bytes) -> dict[str, Any]:
    """A JSON object whose numbers keep their digits (``Digits``). Raises Corrupt, also for a field that comes twice."""
    try:
        parsed = json.loads(value.decode(), object_pairs_hook=distinct, parse_float=Digits, parse_constant=_no_constant)
    except (ValueError, RecursionError) as wrong:
        raise Corrupt(f"log value {value[:200]!r} is not JSON: {wrong}") from None
    if not isinstance(parsed, dict):
        raise Corrupt(f"log value {value[:200]!r} is not a JSON object")
    return parsed


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of JSON")


def exact_text(value: Any) -> bytes:
    """A value of ``exact_object`` as JSON, with all digits. Raises TypeError for an integer of more than 64 bits."""
    return orjson.dumps(value, default=lambda number: orjson.Fragment(repr(number)))


def _fast(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return False
    if pa.types.is_struct(kind):
        return all(_fast(f.type) for f in kind)
    return _fast(kind.value_type) if pa.types.is_list(kind) else True


def plain_rows(objects: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Parsed JSON objects as a table; the slow path for types that pyarrow's reader does not support."""
    columns = [_column([o.get(f.name) for o in objects], f) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array([restored(value, field.type) for value in values], field.type)
    except (pa.ArrowException, ValueError, TypeError, AttributeError, LookupError) as wrong:
        raise Corrupt(f"a log value does not fit '{field.name}', which is {field.type}: {wrong}") from wrong

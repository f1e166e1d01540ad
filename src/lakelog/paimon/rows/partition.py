"""Partitions: the directory that their values give and the bytes that manifests keep (format sheet 1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import numpy as np

from lakelog.errors import UnsupportedFeature
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME
from lakelog.paimon.rows.binary_row import decode_row, encode_row
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType

_ESCAPED: Final = frozenset(chr(i) for i in (*range(0x20), 0x7F)) | frozenset("\"#%'*/:=?\\{}[]^")
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def encode_partition(values: Sequence[object], schema: TableSchema) -> bytes:
    """The serialised BinaryRow of partition values, in the order of the partition keys."""
    return encode_row(values, partition_types(schema))


def decode_partition(data: bytes, schema: TableSchema) -> tuple[Any, ...]:
    """The reverse of ``encode_partition``. Raises Corrupt."""
    return decode_row(data, partition_types(schema))


def partition_types(schema: TableSchema) -> tuple[DataType, ...]:
    """Types of the partition columns."""
    return tuple(f.type for f in schema.select(schema.partition_keys))


def partition_dir(values: Sequence[object], schema: TableSchema) -> str:
    """``'k1=v1/k2=v2/'`` below the table's directory, ``''`` for a table without partitions.

    Called for writes and reads. The manifest's values are authoritative; the directory is only derived from them.
    Honours ``partition.default-name`` and ``partition.legacy-name``. Raises UnsupportedFeature for a type without a
    text form that other engines agree on.
    """
    return "".join(f"{_escape(name)}={_escape(text)}/" for name, text in partition_spec(values, schema).items())


def partition_spec(values: Sequence[object], schema: TableSchema) -> dict[str, str]:
    """The values as text by their columns, as ``partition_dir`` writes them but nothing escaped. Raises as it does."""
    options = Options(schema.options)
    legacy = options.need(PARTITION_LEGACY_NAME)
    spec = {}
    for name, value, kind in zip(schema.partition_keys, values, partition_types(schema), strict=True):
        text = None if value is None else _text(value, kind, legacy)
        spec[name] = options.need(PARTITION_DEFAULT_NAME) if text is None or not text.strip() else text
    return spec


def internal_text(value: Any, kind: DataType) -> str:
    """A value as the text of its stored form: a DATE as days, a TIME as milliseconds, a TIMESTAMP in ISO form.

    Called for directories of legacy names and for system tables. Raises UnsupportedFeature for other types.
    """
    return _text(value, kind, True)


def sql_text(value: Any, kind: DataType) -> str:
    """A value as SQL casts it to text. Raises UnsupportedFeature for types without such a form here."""
    return _text(value, kind, False)


def _escape(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def _text(value: Any, kind: DataType, legacy: bool) -> str:
    root = kind.root if isinstance(kind, AtomicType) else ""
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root in ("CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT"):
        return str(value)
    if root == "DECIMAL":
        return f"{Decimal(value):f}"
    if root == "DATE" and isinstance(value, int):
        return str(value)
    if root == "DATE" and isinstance(value, date):
        return str(value.toordinal() - _EPOCH_DAY) if legacy else value.isoformat()
    if root == "TIME" and isinstance(value, time):
        millis = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
        return str(millis) if legacy else _time_text(value, kind)
    if root in ("FLOAT", "DOUBLE"):
        return _float_text(np.float32(value) if root == "FLOAT" else np.float64(value))
    if root == "TIMESTAMP" or (root == "TIMESTAMP_LTZ" and legacy):
        return _stamp_text(value, kind, legacy)
    raise UnsupportedFeature(
        f"partition column of type {kind.to_json()}: use a number, text, a date or a timestamp without zone"
    )


def _time_text(value: time, kind: DataType) -> str:
    digits = (kind.precision or 0) if isinstance(kind, AtomicType) else 0
    # last zeros are left out, but for the first digit
    fraction = f"{value.microsecond:06d}"[:digits]
    shown = f".{fraction[0]}{fraction[1:].rstrip('0')}" if fraction else ""
    return f"{value:%H:%M:%S}{shown}"


def _stamp_text(value: Any, kind: DataType, legacy: bool) -> str:
    """Legacy: ISO text as Java's ``LocalDateTime`` prints it. Else SQL text with as many digits as the type has."""
    if isinstance(value, np.datetime64):
        nanos = int(value.astype("datetime64[ns]").astype(np.int64))
        value, below = datetime.fromtimestamp(nanos // 1_000_000_000, UTC), nanos % 1_000_000_000
    else:
        is_instant = value.tzinfo or (isinstance(kind, AtomicType) and kind.root == "TIMESTAMP_LTZ")
        value = value.astimezone(UTC) if is_instant else value
        below = value.microsecond * 1000
    digits = f"{below:09d}"
    day = f"{value.year:04d}-{value:%m-%d}"
    if not legacy:
        count = (kind.precision or 0) if isinstance(kind, AtomicType) else 0
        return f"{day} {value:%H:%M:%S}" + (f".{digits[:count]}" if count else "")
    text = f"{day}T{value:%H:%M}"
    if value.second or below:
        text += f":{value:%S}"
    if below:
        # in groups of three digits
        text += "." + (digits[:3] if below % 1_000_000 == 0 else digits[:6] if below % 1000 == 0 else digits)
    return text


def _float_text(value: Any) -> str:
    """As Java prints it: ``1.0``, ``1.0E10``, ``NaN``, ``-Infinity``."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"

"""The result of a statement, cut to a limit, as plain JSON or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from lakelog.lake.output.plain_rows import JSON_OPTIONS, plain_rows
from lakelog.paimon.types.variant import is_variant

_SAFE: Final = 2**53
"""From here on, JavaScript cannot represent every whole number."""
_NAMES: Final = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
    "double": "double", "date32[day]": "date", "large_string": "string", "large_binary": "binary",
}  # fmt: skip
_BATCH: Final = 200
"""Rows per message, so that the first rows are shown before the last are sent."""
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_FORMULA: Final = re.compile("(^|;)(?=[-=+@\t\r\n＝＋－＠])")  # noqa: RUF001 - wide signs
"""Where a text begins that spreadsheets run as a formula: many countries' separate cells by a semicolon, too."""


@dataclass
class Shown:
    """The shown part of one result."""

    rows: int = 0
    bytes: int = 0
    truncated: bool = False


def columns_of(table: pa.Table) -> list[dict[str, str]]:
    """Names and SQL types of the columns."""
    return [{"name": one.name, "type": type_name(one.type)} for one in table.schema]


def type_name(kind: pa.DataType) -> str:
    """The SQL name of a type, or Arrow's if there is none."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if is_variant(kind):
        return "variant"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{','.join(f'{one.name}:{type_name(one.type)}' for one in fields)}>"
    return _NAMES.get(str(kind), str(kind))


def row_batches(table: pa.Table, shown: Shown, max_rows: int | None, max_bytes: int) -> Iterator[list[Any]]:
    """The rows in batches, up to the limits; updates ``shown``."""
    batch: list[Any] = []
    for row in plain_rows(table):
        if max_rows is not None and shown.rows + len(batch) >= max_rows:
            shown.truncated = True
            break
        plain = orjson.loads(orjson.dumps([_safe_value(value) for value in row], default=str, option=JSON_OPTIONS))
        size = len(orjson.dumps(plain))
        if shown.bytes + size > max_bytes:
            shown.truncated = True
            break
        shown.bytes += size
        batch.append(plain)
        if len(batch) == _BATCH:
            shown.rows += len(batch)
            yield batch
            batch = []
    if batch:
        shown.rows += len(batch)
        yield batch


def _safe_value(value: Any) -> Any:
    if isinstance(value, int) and not -_SAFE < value < _SAFE:
        return str(value)
    if isinstance(value, list | tuple):
        return [_safe_value(one) for one in value]
    if isinstance(value, dict):
        return {key: _safe_value(one) for key, one in value.items()}
    return value


def csv_of(names: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows of a result as CSV for a spreadsheet, with a header unless ``names`` is None.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, also after a semicolon. Numbers stay
    as they are.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    if names is not None:
        writer.writerow(map(_cell, names))
    for row in rows:
        writer.writerow(map(_cell, row))
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        value = orjson.dumps(value).decode()
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) and not _DECIMAL.fullmatch(value) else value

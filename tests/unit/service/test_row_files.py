"""Files of rows for ``lakelog load``: each value is that of the file, or the load fails."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidSchema
from lakelog.service.row_files import file_schema, read_rows

NOON = dt.datetime(2024, 2, 29, 12, 0)


def column(path: Path, kind: pa.DataType) -> list[Any]:
    batches = list(read_rows(path, pa.schema([("id", pa.int32()), ("v", kind)])))
    return pa.Table.from_batches(batches).column("v").to_pylist()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.string(), "NA", "NA"),
        (pa.string(), "null", "null"),
        (pa.string(), "", None),
        (pa.string(), '""', ""),
        (pa.float64(), "inf", float("inf")),
        (pa.float32(), "3.4028235e38", 3.4028235e38),
        (pa.date32(), "2024-02-29", NOON.date()),
    ],
)
def test_a_field_of_csv_is_the_text_that_it_has(tmp_path: Path, kind: pa.DataType, text: str, value: Any) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"id,v\n1,{text}\n")
    assert column(file, kind) == [value]


def test_a_number_that_is_missing_by_a_word_makes_a_column_of_text(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,v\n1,NA\n2,5\n")
    assert file_schema(file).field("v").type == pa.string()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.date32(), '"2024-02-29"', NOON.date()),
        (pa.time32("ms"), '"12:00:00.500"', dt.time(12, 0, 0, 500_000)),
        (pa.timestamp("us"), '"2024-02-29 12:00:00"', NOON),
        (pa.timestamp("us", "UTC"), '"2024-02-29T12:00:00Z"', NOON.replace(tzinfo=dt.UTC)),
        (pa.binary(), '"0x00ff"', b"\0\xff"),
        (pa.binary(), '"ab"', b"ab"),
        (pa.float64(), '"Infinity"', float("inf")),
        (pa.map_(pa.string(), pa.int32()), '{"a":1}', [("a", 1)]),
        (pa.map_(pa.int32(), pa.date32()), '[{"key":1,"value":"2024-02-29"}]', [(1, NOON.date())]),
        (pa.struct([("d", pa.date32())]), '{"d":"2024-02-29"}', {"d": NOON.date()}),
        (pa.decimal128(5, 2), "999.99", Decimal("999.99")),
    ],
)
def test_a_value_of_json_is_read_in_every_type(tmp_path: Path, kind: pa.DataType, text: str, value: Any) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"id":1,"v":{text}}}\n{{"id":2,"v":null}}\n')
    assert column(file, kind) == [value, None]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.decimal128(5, 2), "1000"),
        (pa.list_(pa.decimal128(5, 2)), "[1000]"),
        (pa.date32(), '"2023-02-29"'),
        (pa.timestamp("us", "UTC"), '"2024-02-29 12:00:00"'),
        (pa.int32(), "1.5"),
        (pa.map_(pa.string(), pa.int8()), '{"a":1.5}'),
    ],
)
def test_a_value_of_json_that_does_not_fit_names_its_column(tmp_path: Path, kind: pa.DataType, text: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"id":1,"v":{text}}}\n')
    with pytest.raises(InvalidSchema, match="'v'"):
        column(file, kind)


@pytest.mark.parametrize("map_", [{}, {"m": {"a": 1}}])
def test_columns_that_a_file_lacks_or_has_alone_are_those_of_its_rows(tmp_path: Path, map_: dict[str, Any]) -> None:
    """So that the writer may refuse them, as it does for other rows."""
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"id": 1, "other": "x", **map_}) + "\n")
    table = pa.schema([("id", pa.int32()), ("v", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))])
    assert set(next(iter(read_rows(file, table))).schema.names) == {"id", "other", *map_}

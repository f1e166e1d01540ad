from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from lakelog.errors import Corrupt
from lakelog.fileformat import avro_columns
from lakelog.fileformat.avro_columns import read_columns
from lakelog.fileformat.avro_file import read_plain, read_records, write_records

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "bytes"}]}
PLAIN = [
    {"name": "a", "type": "long"},
    {"name": "b", "type": ["null", "string"], "default": None},
    {"name": "c", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "d", "type": ["null", {"type": "array", "items": "string"}], "default": None},
    {"name": "e", "type": INNER},
    {"name": "f", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
]
PATHS = ("a", "b", "c", "d", "e.x", "f")
RECORDS = [
    {"a": -(2**62), "b": None, "c": [], "d": None, "e": {"x": b""}, "f": None},
    {"a": 1, "b": "é\0", "c": [None, 5, None], "d": [], "e": {"x": b"\xff\x00"}, "f": 2**60},
    {"a": 2**62, "b": "", "c": [7], "d": ["", "x"], "e": {"x": b"1"}, "f": -1},
] * 50


def schema(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "any.Name", "fields": fields}


def columns(data: bytes, paths: tuple[str, ...] = PATHS, **chunk: int) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for part in read_columns(data, paths, **chunk):
        for path, values in part.items():
            out.setdefault(path, []).extend(values.to_list())
    return out


def expected(data: bytes) -> dict[str, list[Any]]:
    records = read_records(data)
    return {p: [r["e"]["x"] if p == "e.x" else r[p] for r in records] for p in PATHS}


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_columns_hold_what_the_records_hold(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_records(schema(PLAIN), RECORDS, compression)
    monkeypatch.setattr(avro_columns, "read_plain", None)
    assert columns(data) == expected(data)


@pytest.mark.parametrize(
    "fields",
    [
        [PLAIN[0], {"name": "b", "type": ["string", "null"]}, *PLAIN[2:]],
        [*PLAIN, {"name": "g", "type": {"type": "enum", "name": "E", "symbols": ["x"]}}],
        [*PLAIN, {"name": "g", "type": ["null", "Inner"], "default": None}],
        [*PLAIN, {"name": "g", "type": ["null", "int", "string"], "default": None}],
        [*PLAIN, {"name": "g", "type": {"type": "map", "values": "int"}}],
    ],
    ids=["null comes last", "enum", "named type", "wide union", "map"],
)
def test_shapes_of_other_writers_are_read_record_by_record(
    fields: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(avro_columns, "read_plain", lambda data: asked.append(1) or read_plain(data))
    records = [{**r, "g": {"map": {}, "enum": "x"}.get(_kind(fields[-1]["type"]))} for r in RECORDS]
    data = write_records(schema(fields), records)
    assert columns(data) == expected(data)
    assert asked


def _kind(avro: Any) -> str:
    return str(avro["type"]) if isinstance(avro, dict) else "union"


def test_blocks_are_joined_and_cut_to_parts_in_order() -> None:
    out = io.BytesIO()
    fastavro.writer(out, schema(PLAIN), RECORDS, codec="null", sync_interval=64)
    parts = list(read_columns(out.getvalue(), ("a",), chunk_bytes=1000))
    assert 1 < len(parts) < 20
    assert columns(out.getvalue(), chunk_bytes=1000) == expected(out.getvalue())


def test_fields_that_are_not_there_have_no_column() -> None:
    data = write_records(schema(PLAIN), RECORDS)
    assert set(columns(data, ("a", "z", "e.z", "a.x", "z.x"))) == {"a"}


def test_a_file_without_records_has_no_part() -> None:
    assert list(read_columns(write_records(schema(PLAIN), []), PATHS)) == []


@pytest.mark.parametrize("cut", [3, 200, -30])
def test_a_broken_file_is_corrupt(cut: int) -> None:
    data = write_records(schema(PLAIN), RECORDS, "none")
    with pytest.raises(Corrupt):
        list(read_columns(data[:cut], PATHS))


def test_a_block_that_holds_less_than_it_says_is_corrupt() -> None:
    longer = write_records(schema([{"name": "a", "type": "string"}]), [{"a": "x" * 20}], "none")
    data = longer.replace(b"\x28" + b"x" * 20, b"\x7e" + b"x" * 20)
    assert data != longer
    with pytest.raises(Corrupt):
        list(read_columns(data, ("a",)))

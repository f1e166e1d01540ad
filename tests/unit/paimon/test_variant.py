"""The bytes of a VARIANT value: made of JSON, read as JSON and as Python's objects, and refused if malformed."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import lakelog
from depth import DEPTH
from json_texts import JSON_TEXTS, meaning
from lakelog.errors import Corrupt, InvalidRequest, InvalidSchema
from lakelog.paimon.types.arrow import arrow_type, fields_from_arrow, file_schema
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.types import AtomicType, DataField, parse_type
from lakelog.paimon.types.variant import VARIANT, from_json_texts, has_variant, is_variant, json_texts
from lakelog.paimon.types.variant_bytes import from_json, to_json, to_python

NO_NAMES = b"\x01\x00\x00"


def primitive(kind: int, content: bytes = b"") -> bytes:
    return bytes([kind << 2]) + content


@pytest.mark.parametrize(
    ("text", "value", "metadata"),
    [
        ("null", primitive(0), NO_NAMES),
        ("true", primitive(1), NO_NAMES),
        ("-128", primitive(3, b"\x80"), NO_NAMES),
        ("128", primitive(4, b"\x80\x00"), NO_NAMES),
        ("9223372036854775807", primitive(6, b"\xff" * 7 + b"\x7f"), NO_NAMES),
        ("9223372036854775808", primitive(10, b"\x00" + (2**63).to_bytes(16, "little")), NO_NAMES),
        ("1.50", primitive(8, b"\x02" + struct.pack("<i", 150)), NO_NAMES),
        ("1e0", primitive(7, struct.pack("<d", 1)), NO_NAMES),
        ('"ab"', b"\x09ab", NO_NAMES),
        (json.dumps("x" * 64), primitive(16, struct.pack("<i", 64) + b"x" * 64), NO_NAMES),
        ("[]", b"\x03\x00\x00", NO_NAMES),
        ('{"b": 1, "a": true}', b"\x02\x02\x01\x00\x02\x00\x03\x0c\x01\x04", b"\x01\x02\x00\x01\x02ba"),
    ],
)
def test_json_has_the_bytes_of_the_specification(text: str, value: bytes, metadata: bytes) -> None:
    assert from_json(text) == (value, metadata)


@settings(max_examples=DEPTH.cases(300))
@given(text=JSON_TEXTS)
def test_json_comes_back_with_every_digit_and_the_same_bytes(text: str) -> None:
    value, metadata = from_json(text)
    assert meaning(to_json(value, metadata, exact=True)) == meaning(text)
    assert from_json(to_json(value, metadata, exact=True)) == (value, metadata)


@settings(max_examples=DEPTH.cases(100))
@given(text=JSON_TEXTS)
def test_python_s_objects_are_those_of_the_json(text: str) -> None:
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        if isinstance(one, list):
            return len(one) == len(other) and all(map(same, one, other))
        return bool(one == other)

    assert same(to_python(*from_json(text)), meaning(text))


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        (primitive(11, struct.pack("<i", 19_782)), '"2024-02-29"', dt.date(2024, 2, 29)),
        (primitive(11, struct.pack("<i", 4_000_000)), '"12921-08-18"', "12921-08-18"),
        (
            primitive(12, struct.pack("<q", 1_500_000)),
            '"1970-01-01 00:00:01.5+00:00"',
            dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC),
        ),
        (primitive(13, struct.pack("<q", -1)), '"1969-12-31 23:59:59.999999"', dt.datetime.max.replace(1969, 12, 31)),
        (primitive(14, struct.pack("<f", 0.1)), "0.1", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (primitive(7, struct.pack("<d", -math.inf)), '"-Infinity"', -math.inf),
        (primitive(15, struct.pack("<i", 2) + b"\x00\xff"), '"AP8="', b"\x00\xff"),
        (primitive(17, struct.pack("<q", 0)), '"00:00:00.000000"', dt.time(0)),
        (primitive(18, struct.pack("<q", 1)), '"1970-01-01 00:00:00.000000001+00:00"', None),
        (primitive(20, bytes(range(16))), '"00010203-0405-0607-0809-0a0b0c0d0e0f"', uuid.UUID(bytes=bytes(range(16)))),
    ],
)
def test_values_that_json_does_not_have_are_text_in_it(value: bytes, text: str, found: Any) -> None:
    assert to_json(value, NO_NAMES) == text
    assert to_python(value, NO_NAMES) == (json.loads(text) if found is None else found)


@pytest.mark.parametrize(
    "text", ["", "nul", "NaN", "[1", '{"a": 1, "a": 2}', r'"\ud800"', "[" * 9_999 + "]" * 9_999, "1 2"]
)
def test_text_that_is_no_json_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not JSON for a VARIANT"):
        from_json(text)


@pytest.mark.parametrize(
    ("value", "metadata"),
    [
        (b"", NO_NAMES),
        (b"\x00", b""),
        (b"\x00", b"\x02\x00\x00"),
        (b"\x00", b"\x01\x05"),
        (b"\x00", b"\x01\x01\x00\x05a"),
        (b"\x00", b"\x01\x01\x00\x01\xff"),
        (primitive(6, b"\x00"), NO_NAMES),
        (primitive(63), NO_NAMES),
        (b"\x09a", NO_NAMES),
        (b"\x05\xff", NO_NAMES),
        (b"\x03\x01\x00\x09\x00", NO_NAMES),
        (b"\x02\x01\x07\x00\x01\x00", NO_NAMES),
        (b"\x03\xff\x00", NO_NAMES),
    ],
)
def test_malformed_bytes_are_an_error(value: bytes, metadata: bytes) -> None:
    for read in (to_json, to_python):
        with pytest.raises(Corrupt, match="malformed VARIANT"):
            read(value, metadata)


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_a_value_of_many_levels_is_read_from_anywhere_in_a_program(before: str, after: str) -> None:
    def nested(levels: int) -> str:
        count = levels // (len(after))
        return before * count + "1" + after * count

    def called_from(calls: int, work: Callable[[], Any]) -> Any:
        return called_from(calls - 1, work) if calls else work()

    value, metadata = called_from(500, lambda: from_json(nested(400)))
    assert called_from(500, lambda: to_json(value, metadata, exact=True)) == nested(400)
    assert called_from(500, lambda: to_python(value, metadata)) == to_python(value, metadata)
    for levels in (402, 100_000):
        with pytest.raises(InvalidRequest, match="more than 400 levels"):
            from_json(nested(levels))


def test_a_value_of_more_levels_by_another_engine_is_read_and_has_no_text_for_the_log() -> None:
    value = b"\x0c\x01"
    for _ in range(1000):
        value = b"\x0b\x01" + bytes(3) + len(value).to_bytes(3, "little") + value
    assert to_json(value, NO_NAMES) == "[" * 1000 + "1" + "]" * 1000
    with pytest.raises(InvalidRequest, match="more than 400 levels"):
        to_json(value, NO_NAMES, exact=True)


def test_the_arrow_type_is_known_by_its_mark_only() -> None:
    assert is_variant(arrow_type(parse_type("VARIANT")))
    assert has_variant(arrow_type(parse_type({"type": "ARRAY", "element": "VARIANT"})))
    plain = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])
    assert not has_variant(plain)
    kinds = [kind.to_json() for _, kind, _ in fields_from_arrow(pa.schema([("a", VARIANT), ("b", plain)]))]
    assert kinds[0] == "VARIANT"
    assert isinstance(kinds[1], dict)


def test_the_parts_in_a_file_have_the_ids_that_paimon_gives_them() -> None:
    kind = file_schema([DataField(7, "v", AtomicType("VARIANT"))]).field(0).type
    assert is_variant(kind)
    assert [(part.name, part.metadata[b"PARQUET:field_id"]) for part in kind] == [("value", b"0"), ("metadata", b"1")]


def test_columns_of_json_texts() -> None:
    texts = ['{"a": 1.50}', None, "null"]
    column = lakelog.variant.from_json(texts)
    assert column.type == lakelog.variant.TYPE == VARIANT
    assert column.null_count == 1
    assert column.equals(from_json_texts(pa.array(texts)))
    assert lakelog.variant.to_json(pa.chunked_array([column])).to_pylist() == ['{"a":1.50}', None, "null"]
    assert lakelog.variant.to_python(column.slice(0, 2)) == [{"a": Decimal("1.50")}, None]
    assert json_texts(column.slice(2)).to_pylist() == ["null"]
    with pytest.raises(InvalidRequest, match="is no VARIANT"):
        lakelog.variant.to_json(pa.array(["{}"]))


def test_a_variant_has_no_default() -> None:
    with pytest.raises(InvalidSchema, match="cannot be the default"):
        default_scalar(DataField(0, "v", AtomicType("VARIANT"), default_value="{}"))

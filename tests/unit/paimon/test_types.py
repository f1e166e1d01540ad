from __future__ import annotations

import pytest

from lakelog.errors import InvalidSchema, UnsupportedFeature
from lakelog.paimon.types.types import (
    STRING,
    ArrayType,
    AtomicType,
    MapType,
    RowType,
    nested_fields,
    parse_type,
)


@pytest.mark.parametrize(
    "text",
    [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT NOT NULL", "BIGINT", "FLOAT", "DOUBLE", "STRING NOT NULL", "BYTES",
        "CHAR(5)", "VARCHAR(20)", "BINARY(4)", "VARBINARY(9) NOT NULL", "DECIMAL(38, 10)", "DATE", "TIME(3)",
        "TIMESTAMP(0)", "TIMESTAMP(9) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL", "VARIANT", "BLOB",
    ],
)  # fmt: skip
def test_the_text_of_a_type_is_read_and_printed_the_same(text: str) -> None:
    assert parse_type(text).to_json() == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("varchar(2147483647)", "STRING"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("INTEGER", "INT"),
        ("numeric(5,1)", "DECIMAL(5, 1)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("double precision", "DOUBLE"),
        ("CHAR", "CHAR(1)"), ("VARCHAR", "VARCHAR(1)"), ("BINARY", "BINARY(1)"), ("DECIMAL", "DECIMAL(10, 0)"),
        ("TIME", "TIME(0)"), ("TIMESTAMP", "TIMESTAMP(6)"), ("INT NULL", "INT"),
    ],
)  # fmt: skip
def test_other_spellings_and_missing_parameters_mean_the_defaults(text: str, printed: str) -> None:
    assert parse_type(text).to_json() == printed


@pytest.mark.parametrize("text", ["INT(3)", "DECIMAL(39, 0)", "DECIMAL(4, 5)", "TIMESTAMP(10)", "CHAR(0)", "1NT", ""])
def test_text_that_is_no_type_is_an_invalid_schema(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_type(text)


def test_a_type_of_another_release_is_an_unsupported_feature() -> None:
    with pytest.raises(UnsupportedFeature, match="GEOMETRY"):
        parse_type("GEOMETRY")
    with pytest.raises(UnsupportedFeature, match="GRAPH"):
        parse_type({"type": "GRAPH"})


NESTED = {
    "type": "ROW NOT NULL",
    "fields": [
        {"id": 3, "name": "x", "type": {"type": "ARRAY", "element": "INT NOT NULL"}},
        {"id": 4, "name": "y", "type": {"type": "MAP NOT NULL", "key": "STRING", "value": "DATE"}, "description": "d"},
        {"id": 5, "name": "z", "type": {"type": "MULTISET", "element": "INT"}},
        {"id": 6, "name": "v", "type": {"type": "VECTOR", "element": "FLOAT", "length": 3}},
    ],
}


def test_nested_types_are_read_and_printed_the_same() -> None:
    kind = parse_type(NESTED)
    assert kind.to_json() == NESTED
    assert isinstance(kind, RowType)
    assert kind.fields[0].type == ArrayType(AtomicType("INT", False))
    assert kind.fields[1].type == MapType(STRING, AtomicType("DATE"), False)
    assert [f.id for f in nested_fields(kind)] == [3, 4, 5, 6]


def test_a_nested_type_without_a_part_names_it() -> None:
    with pytest.raises(InvalidSchema, match="'value'"):
        parse_type({"type": "MAP", "key": "INT"})


def test_nullability_is_changed_in_a_copy() -> None:
    assert STRING.with_nullable(False).to_json() == "STRING NOT NULL"
    assert STRING.with_nullable(True) is STRING

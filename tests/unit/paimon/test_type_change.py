from __future__ import annotations

import pytest

from lakelog.paimon.types.evolution import can_change_type, types_after
from lakelog.paimon.types.types import INT, STRING, ArrayType, DataField, DataType, MapType, RowType, parse_type

LIST = ArrayType(INT)
ROW = RowType((DataField(1, "a", INT),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "INT NOT NULL"), ("TINYINT", "SMALLINT"), ("SMALLINT", "INT"), ("INT", "BIGINT"), ("BIGINT", "FLOAT"),
        ("BIGINT", "DOUBLE"), ("FLOAT", "DOUBLE"), ("DOUBLE", "DECIMAL(10, 2)"), ("DECIMAL(10, 2)", "DECIMAL(12, 2)"),
        ("DECIMAL(10, 2)", "FLOAT"), ("CHAR(3)", "STRING"), ("VARCHAR(3)", "VARCHAR(2)"), ("BINARY(3)", "BYTES"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)"), ("TIMESTAMP(3)", "DATE"), ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
        ("BOOLEAN", "BOOLEAN"),
    ],
)  # fmt: skip
def test_types_widen_without_being_asked_twice(old: str, new: str) -> None:
    assert can_change_type(parse_type(old), parse_type(new), explicit=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"), ("DOUBLE", "FLOAT"), ("STRING", "INT"), ("INT", "STRING"), ("STRING", "DATE"),
        ("BOOLEAN", "INT"), ("INT", "BOOLEAN"), ("STRING", "CHAR(3)"), ("BYTES", "BINARY(2)"), ("STRING", "BYTES"),
        ("DATE", "TIMESTAMP(3)"), ("TIMESTAMP(3)", "BIGINT"), ("BIGINT", "TIMESTAMP(3)"), ("TIMESTAMP_LTZ(3)", "DATE"),
        ("DATE", "STRING"), ("BYTES", "STRING"),
    ],
)  # fmt: skip
def test_what_may_lose_something_is_explicit(old: str, new: str) -> None:
    assert can_change_type(parse_type(old), parse_type(new), explicit=True)
    assert not can_change_type(parse_type(old), parse_type(new), explicit=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DATE", "INT"), ("DATE", "TIME(0)"), ("TIME(0)", "DATE"), ("BOOLEAN", "DATE"), ("FLOAT", "BOOLEAN"),
        ("TIMESTAMP(3)", "SMALLINT"), ("TIMESTAMP(3)", "DECIMAL(10, 0)"), ("INT", "DATE"), ("INT", "BYTES"),
        ("BYTES", "INT"), ("VARIANT", "STRING"), ("DATE", "VARCHAR(20)"), ("TIMESTAMP(3)", "CHAR(30)"),
        ("DOUBLE", "TIMESTAMP(3)"), ("BOOLEAN", "TIMESTAMP(3)"),
    ],
)  # fmt: skip
def test_what_no_reader_can_cast_is_refused(old: str, new: str) -> None:
    assert not can_change_type(parse_type(old), parse_type(new), explicit=True)


@pytest.mark.parametrize("kind", [LIST, ROW, MapType(STRING, INT)])
def test_nested_types_become_text_only(kind: DataType) -> None:
    assert can_change_type(kind, STRING, explicit=True)
    assert not can_change_type(kind, STRING, explicit=False)
    assert not can_change_type(STRING, kind, explicit=True)
    assert not can_change_type(kind, ArrayType(STRING), explicit=True)
    assert can_change_type(kind, kind.with_nullable(False), explicit=False)


def test_messages_name_the_types_that_are_possible() -> None:
    assert types_after(parse_type("DATE"), explicit=False) == ["DATE"]
    assert types_after(parse_type("DATE"), explicit=True) == ["DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "VARCHAR"]

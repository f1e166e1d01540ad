from __future__ import annotations

import pytest

from lakelog.paimon.types.evolution import can_change_type, types_after
from lakelog.paimon.types.types import INT, STRING, ArrayType, DataField, DataType, MapType, RowType, parse_type

LIST = ArrayType(INT)
ROW = RowType((DataField(1, "a", INT),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "INT NOT NULL"), ("TINYINT", "SMALLINT"), ("SMALLINT", "INT"), ("INT", "BIGINT"), ("SMALLINT", "FLOAT"),
        ("INT", "DOUBLE"), ("FLOAT", "DOUBLE"), ("INT", "DECIMAL(12, 2)"), ("DECIMAL(10, 2)", "DECIMAL(12, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)"), ("CHAR(3)", "STRING"), ("CHAR(3)", "VARCHAR(3)"),
        ("VARCHAR(3)", "VARCHAR(4)"), ("BINARY(3)", "BYTES"), ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"), ("BOOLEAN", "BOOLEAN"), ("INT", "STRING"), ("DATE", "STRING"),
        ("CHAR(3)", "CHAR(5)"),
    ],
)  # fmt: skip
def test_a_type_with_all_values_of_the_former_one_needs_no_option(old: str, new: str) -> None:
    assert can_change_type(parse_type(old), parse_type(new), explicit=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"), ("DOUBLE", "FLOAT"), ("STRING", "INT"), ("INT", "VARCHAR(3)"), ("STRING", "DATE"),
        ("BOOLEAN", "INT"), ("INT", "BOOLEAN"), ("STRING", "CHAR(3)"), ("BYTES", "BINARY(2)"), ("STRING", "BYTES"),
        ("DATE", "TIMESTAMP(3)"), ("TIMESTAMP(3)", "BIGINT"), ("BIGINT", "TIMESTAMP(3)"), ("TIMESTAMP_LTZ(3)", "DATE"),
        ("BYTES", "STRING"), ("VARCHAR(3)", "VARCHAR(2)"), ("CHAR(5)", "CHAR(3)"), ("VARCHAR(3)", "CHAR(3)"),
        ("DECIMAL(10, 2)", "DECIMAL(9, 2)"), ("DECIMAL(10, 2)", "DECIMAL(10, 3)"), ("DECIMAL(10, 2)", "DECIMAL(10, 1)"),
        ("BIGINT", "DOUBLE"), ("INT", "FLOAT"), ("INT", "DECIMAL(11, 2)"), ("DOUBLE", "DECIMAL(10, 2)"),
        ("DECIMAL(10, 2)", "DOUBLE"), ("TIMESTAMP(6)", "TIMESTAMP(3)"), ("TIMESTAMP(3)", "DATE"),
        ("TIMESTAMP(3)", "TIME(3)"), ("STRING", "DOUBLE"), ("STRING", "BOOLEAN"), ("STRING", "TIMESTAMP(3)"),
    ],
)  # fmt: skip
def test_what_may_not_fit_is_explicit(old: str, new: str) -> None:
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
    assert types_after(parse_type("DATE"), explicit=False) == ["DATE", "VARCHAR"]
    assert types_after(parse_type("DATE"), explicit=True) == ["DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "VARCHAR"]

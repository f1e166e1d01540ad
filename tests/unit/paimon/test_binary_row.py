from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.rows.binary_row import decode_row, decode_rows, encode_row
from lakelog.paimon.types.types import INT, ArrayType, parse_type

CASES = [
    ("INT", 1, "00000001 0000000000000000 0100000000000000"),
    ("INT", -7, "00000001 0000000000000000 f9ffffff00000000"),
    ("BIGINT", 1000003, "00000001 0000000000000000 43420f0000000000"),
    ("STRING", "a", "00000001 0000000000000000 6100000000000081"),
    ("STRING", "longer-than-7-bytes",
     "00000001 0000000000000000 1300000010000000 6c6f6e6765722d74 68616e2d372d6279 7465730000000000"),
    ("STRING", "é日", "00000001 0000000000000000 c3a9e697a5000085"),
    ("INT", None, "00000001 0001000000000000 0000000000000000"),
    ("DECIMAL(30, 5)", Decimal("-10000000000000.00700"),
     "00000001 0000000000000000 0800000010000000 f21f494c589bfd44 0000000000000000"),
    ("DECIMAL(30, 5)", None, "00000001 0001000000000000 0000000010000000 0000000000000000 0000000000000000"),
    ("TIMESTAMP(9)", np.datetime64("2024-02-01T00:00:00.000000001", "ns"),
     "00000001 0000000000000000 0100000010000000 0018f7618d010000"),
    ("TIMESTAMP(6)", None, "00000001 0001000000000000 0000000010000000 0000000000000000"),
    ("BOOLEAN", True, "00000001 0000000000000000 0100000000000000"),
    ("DOUBLE", 1.5, "00000001 0000000000000000 000000000000f83f"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "data"), CASES)
def test_a_row_has_exactly_the_bytes_of_the_format(kind: str, value: Any, data: str) -> None:
    encoded = encode_row([value], [parse_type(kind)])
    assert encoded.hex() == data.replace(" ", "")
    assert decode_row(encoded, [parse_type(kind)]) == (value,)


def test_a_row_without_columns_is_12_zero_bytes() -> None:
    assert encode_row((), ()) == bytes(12)
    assert decode_row(bytes(12), ()) == ()


def test_null_bits_of_many_columns_go_into_a_second_word() -> None:
    values = [None if i % 3 else i for i in range(70)]
    encoded = encode_row(values, [INT] * 70)
    assert len(encoded) == 4 + 16 + 8 * 70
    assert decode_row(encoded, [INT] * 70) == tuple(values)


VALUES = {
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "FLOAT": st.floats(allow_nan=False, width=32),
    "STRING": st.text(),
    "BYTES": st.binary(),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.datetimes(timezones=st.just(UTC)),
    "DECIMAL(18, 4)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-4)),
    "DECIMAL(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")),
    "BOOLEAN": st.booleans(),
}  # fmt: skip
KINDS = [parse_type(text) for text in VALUES]


@given(st.tuples(*(st.none() | values for values in VALUES.values())))
def test_what_is_encoded_is_decoded(values: tuple[Any, ...]) -> None:
    encoded = encode_row(values, KINDS)
    assert len(encoded) % 8 == 4
    assert decode_row(encoded, KINDS) == values


def test_times_are_taken_as_numbers_too() -> None:
    kinds = [parse_type(t) for t in ("DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)")]
    as_numbers = encode_row([1, 1001, 1, 1_000_001, 1_000_000_001], kinds)
    start = datetime(1970, 1, 1)
    as_times = encode_row(
        [
            date(1970, 1, 2),
            time(0, 0, 1, 1000),
            start + timedelta(milliseconds=1),
            start + timedelta(microseconds=1_000_001),
            np.datetime64(1_000_000_001, "ns"),
        ],
        kinds,
    )
    assert as_numbers == as_times


def test_a_time_with_a_zone_is_kept_in_utc() -> None:
    kind = parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")
    tokyo = datetime(2024, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert decode_row(encode_row([tokyo], [kind]), [kind]) == (datetime(2024, 1, 1, tzinfo=UTC),)


def test_a_nested_column_is_kept_only_when_null() -> None:
    assert decode_row(encode_row([None], [ArrayType(INT)]), [ArrayType(INT)]) == (None,)
    with pytest.raises(UnsupportedFeature, match="ARRAY"):
        encode_row([[1]], [ArrayType(INT)])


NESTED_ROW = (
    "000000060000000000000000180000003800000038000000500000002c0000008800000040000000b800000030000000"
    "f8000000090000000000000003000000020000000100000000000000fdffffff00000000030000000200000018000000"
    "200000000000000000000000780000000000008161206c6f6e6765722074657874207468616e20736576656e18000000"
    "02000000000000006b000000000000816c00000000000081020000000200000007000000000000000000000000000000"
    "000000000500000000000000100000002000000001000000300000000200000002000000464d00000000000083000000"
    "0000000000000000000000000200000002000000180000001800000000000000000000000000000000000000e8030000"
    "1000000040e1d7f48d010000"
)
"""A row of nested values as Paimon's Java core serialised it."""


def test_nested_values_of_paimon_are_read() -> None:
    point = {
        "type": "ROW",
        "fields": [
            {"id": 1, "name": "a", "type": "BIGINT"},
            {"id": 2, "name": "b", "type": {"type": "ARRAY", "element": "DATE"}},
            {"id": 3, "name": "c", "type": "DECIMAL(30, 2)"},
        ],
    }
    stamps = {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "TIMESTAMP(6)"}]}
    kinds = [
        {"type": "ARRAY", "element": "INT"},
        {"type": "ARRAY", "element": "STRING"},
        {"type": "MAP", "key": "STRING", "value": "SMALLINT"},
        point,
        {"type": "ARRAY", "element": stamps},
        "INT",
    ]
    assert decode_row(bytes.fromhex(NESTED_ROW), [parse_type(k) for k in kinds]) == (
        [1, None, -3],
        ["a longer text than seven", None, "x"],
        [("k", 7), ("l", None)],
        (5, [date(2024, 2, 29), None], Decimal("-1.25")),
        [(datetime(2024, 2, 29, 12, 30, 5, 120001),), None],
        9,
    )
    with pytest.raises(Corrupt):
        decode_row(bytes.fromhex(NESTED_ROW)[:-60], [parse_type(k) for k in kinds])
    with pytest.raises(UnsupportedFeature, match="VECTOR"):
        decode_row(bytes.fromhex(NESTED_ROW), [parse_type({"type": "VECTOR", "element": "INT", "length": 3})] * 6)


@pytest.mark.parametrize("data", [b"", bytes(11), bytes.fromhex("00000002") + bytes(24), bytes.fromhex("00000001")])
def test_bytes_that_are_no_such_row_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_row(data, [INT])


def test_text_that_points_outside_of_the_row_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        decode_row(bytes.fromhex("00000001 0000000000000000 ff00000010000000"), [parse_type("STRING")])


@given(st.sampled_from(["INT", "BIGINT", "STRING"]), st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1)))
def test_rows_are_decoded_together_as_one_by_one(kind: str, numbers: list[int | None]) -> None:
    types = [parse_type(kind)]
    values = [str(n) if kind == "STRING" and n is not None else n for n in numbers]
    rows = [encode_row([value], types) for value in values]
    assert decode_rows(rows, types) == [decode_row(row, types) for row in rows] == [(value,) for value in values]
    with pytest.raises(Corrupt):
        decode_rows([*rows, encode_row([1, 2], [*types, *types] if kind != "STRING" else [INT, INT])], types)

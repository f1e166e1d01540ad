"""Kinds of columns: their SQL and Arrow types, values that have made trouble somewhere, and SQL literals of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class Kind:
    """A kind of column. ``arrow`` is Python text; ``values`` are as a read returns them; ``wrong`` are Arrow types and
    values that the column cannot hold."""

    sql: str
    arrow: str
    values: tuple[Any, ...]
    literal: Callable[[Any], str] = repr
    is_simple: bool = True
    is_key: bool = False
    wider: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()
    wrong: tuple[tuple[str, Any], ...] = ()

    def code(self, value: Any) -> str:
        """The literal in SQL, also of NULL."""
        return "null" if value is None else self.literal(value)


def text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(value: float) -> str:
    return f"double('{value}')" if value != value or abs(value) == float("inf") else repr(value)


def _day(value: dt.date) -> str:
    return f"date '{value.isoformat()}'"


def _time(value: dt.datetime) -> str:
    return f"timestamp '{value.replace(tzinfo=None).isoformat(' ')}Z'"


def _local_time(value: dt.datetime) -> str:
    return f"timestamp_ntz '{value.isoformat(' ')}'"


_NAMES = ("a", "ab", "abc", "A", "b%", "b_c", "", " ", "ä", "O'Hara", "a\\b", "null", "10")
_TIMES = tuple(
    dt.datetime(*parts)
    for parts in (
        (1970, 1, 1),
        (2024, 3, 31, 2, 30),
        (1883, 11, 18, 12, 3, 58),
        (1969, 12, 31, 23, 59, 59),
        (2024, 1, 1, 0, 0, 0, 123456),
        (9999, 12, 31, 12),
    )
)
_INTS = (0, 1, 2, 3, -1, 7, 100)

KINDS: Final[Mapping[str, Kind]] = {
    kind.sql: kind
    for kind in (
        Kind(
            "int",
            "pa.int32()",
            (*_INTS, 2**31 - 1, -(2**31)),
            is_key=True,
            wider=("bigint",),
            narrower=("smallint",),
            wrong=(("pa.int64()", 2**31), ("pa.float64()", 1.5), ("pa.string()", "x")),
        ),
        Kind(
            "smallint",
            "pa.int16()",
            (*_INTS, 32767),
            is_key=True,
            wider=("int", "bigint"),
            narrower=("tinyint",),
            wrong=(("pa.int32()", 70000),),
        ),
        Kind("bigint", "pa.int64()", (*_INTS, 2**53 + 1, 2**40 + 5), is_key=True, narrower=("int", "tinyint")),
        Kind(
            "double",
            "pa.float64()",
            (0.0, 1.5, -1.5, float("nan"), float("inf"), 1e300, 2.0),
            _double,
            narrower=("int", "float"),
        ),
        Kind(
            "decimal(9,2)",
            "pa.decimal128(9, 2)",
            tuple(map(Decimal, ("0.00", "1.37", "-5.00", "9999999.99"))),
            str,
            wider=("decimal(12,2)",),
            narrower=("decimal(4,2)",),
            wrong=(("pa.decimal128(12, 2)", Decimal("9999999999.99")), ("pa.decimal128(9, 3)", Decimal("1.375"))),
        ),
        Kind(
            "decimal(12,2)",
            "pa.decimal128(12, 2)",
            tuple(map(Decimal, ("0.00", "1.37", "9999999999.99"))),
            str,
            narrower=("decimal(9,2)",),
        ),
        Kind("string", "pa.string()", _NAMES, text, is_key=True, narrower=("varchar(2)", "double")),
        Kind(
            "char(5)",
            "pa.string()",
            ("ab   ", "cd   ", "     ", "abcde"),
            lambda v: text(v.rstrip()),
            wrong=(("pa.string()", "abcdef"),),
        ),
        Kind(
            "varchar(4)",
            "pa.string()",
            ("", "a", "abcd", " b"),
            text,
            wider=("string", "varchar(9)"),
            narrower=("varchar(2)",),
            wrong=(("pa.string()", "abcde"),),
        ),
        Kind("varchar(9)", "pa.string()", ("", "a", "abcdefghi"), text, wider=("string",)),
        Kind("boolean", "pa.bool_()", (True, False), lambda v: str(v).lower()),
        Kind(
            "date",
            "pa.date32()",
            tuple(dt.date(*p) for p in ((2024, 1, 1), (1970, 1, 1), (1582, 10, 4), (9999, 12, 31))),
            _day,
            is_key=True,
        ),
        Kind("timestamp", "pa.timestamp('us', tz='UTC')", tuple(t.replace(tzinfo=dt.UTC) for t in _TIMES), _time),
        Kind("timestamp_ntz", "pa.timestamp('us')", _TIMES, _local_time),
        Kind("binary", "pa.binary()", (b"", b"\x00\xff", b"ab"), lambda v: f"X'{v.hex()}'"),
        Kind(
            "array<int>",
            "pa.list_(pa.int32())",
            ([], [1, None], [3]),
            lambda v: f"array({', '.join('null' if e is None else str(e) for e in v)})",
            is_simple=False,
        ),
        Kind(
            "struct<a: int, b: string>",
            "pa.struct([('a', pa.int32()), ('b', pa.string())])",
            ({"a": 1, "b": None}, {"a": None, "b": "x"}),
            is_simple=False,
            wrong=(
                ("pa.struct([('a', pa.int32()), ('bb', pa.string())])", {"a": 1, "bb": "x"}),
                ("pa.struct([('a', pa.int32()), ('b', pa.string()), ('c', pa.int32())])", {"a": 1, "b": "x", "c": 1}),
            ),
        ),
        Kind(
            "map<struct<a: int>, string>",
            "pa.map_(pa.struct([('a', pa.int32())]), pa.string())",
            ([], [({"a": 1}, "x")], [({"a": 1}, "x"), ({"a": 2}, None)]),
            is_simple=False,
        ),
        Kind(
            "time(3)",
            "pa.time32('ms')",
            (dt.time(0), dt.time(1, 30), dt.time(23, 59, 59, 999000)),
            is_simple=False,
            wrong=(("pa.time32('ms')", 86_400_000), ("pa.time32('ms')", -1000)),
        ),
        Kind(
            "map<string, int>",
            "pa.map_(pa.string(), pa.int32())",
            ([], [("a", 1)], [("a", None), ("b", 2)]),
            is_simple=False,
        ),
    )
}
"""SQL type → kind. Literals of structs, maps and times of the day are not written."""

HERE: Final = "America/New_York"
"""The time zone of histories."""


def local(value: dt.datetime) -> dt.datetime | None:
    """A time as the clocks here show it, without a zone; None if they show it twice or never."""
    shown = value.astimezone(ZoneInfo(HERE)).replace(tzinfo=None)
    return shown if shown.replace(tzinfo=ZoneInfo(HERE)).astimezone(dt.UTC) == value else None


def converted(value: Any, kind: str) -> Any:
    """A stored value as a column of a wider kind gives it."""
    if isinstance(value, int) and not isinstance(value, bool) and kind == "double":
        return float(value)
    return value


def plain(value: Any) -> Any:
    """A value that can be compared and hashed: NaN is itself, and a time has one zone."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, dict):
        return tuple((name, plain(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(one) for one in value)
    return value

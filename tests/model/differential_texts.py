"""Conditions and values in SQL text, as a user may write them, and the rows that they are asked about."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

NAN, INFINITE = float("nan"), float("inf")
_DAYS = ("2024-02-29", "1970-01-01", "1582-10-04", "1582-10-15", "0001-01-01", "9999-12-31", "1969-12-31")
_MOMENTS = (
    "2024-03-10 02:30:00", "2024-03-10 07:30:00", "2024-11-03 01:30:00", "1970-01-01 00:00:00", "1883-11-18 12:03:57",
    "1969-12-31 23:59:59.999999", "2024-02-29 12:00:00.123456", "2024-02-29 00:00:00", "0001-01-02 00:00:00",
    "9999-12-30 23:59:59",
)  # fmt: skip
_TEXTS = (
    "a", "ab", "abc", "A", "b%", "b_c", "", " ", "a ", "ä", "O'Hara", "a\\b", "null", "10", "9", "1.5", "true", "NaN",
    "2024-02-29", "a\nb", "ß", "\U0001f600", "\uffff", "%", "\\",
)  # fmt: skip

COLUMNS: Final[Mapping[str, tuple[str, pa.DataType, tuple[Any, ...]]]] = {
    "b": ("boolean", pa.bool_(), (True, False)),
    "ti": ("tinyint", pa.int8(), (0, 1, -1, 127, -128)),
    "i": ("int", pa.int32(), (0, 1, -1, 10, 2**31 - 1, -(2**31), 9)),
    "n": ("bigint", pa.int64(), (0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10)),
    "f": ("float", pa.float32(), (0.0, -0.0, 1.5, 16777216.0, NAN, INFINITE, -INFINITE, 0.10000000149011612)),
    "d": ("double", pa.float64(), (0.0, -0.0, 1.5, 0.1, NAN, INFINITE, -INFINITE, 2.0**53, 1e300, 5e-324)),
    "p": ("decimal(9,2)", pa.decimal128(9, 2), tuple(map(Decimal, ("0.00", "1.50", "-5.00", "9999999.99", "0.10")))),
    "q": ("decimal(38,10)", pa.decimal128(38, 10), tuple(map(Decimal, ("0", "1.5", "-1e-10", "9007199254740993")))),
    "s": ("string", pa.string(), _TEXTS),
    "v": ("varchar(6)", pa.string(), tuple(t for t in _TEXTS if len(t) <= 6)),
    "c": ("char(4)", pa.string(), tuple(t.ljust(4) for t in _TEXTS if len(t) <= 4)),
    "day": ("date", pa.date32(), tuple(map(dt.date.fromisoformat, _DAYS))),
    "at": ("timestamp", pa.timestamp("us", "UTC"), tuple(dt.datetime.fromisoformat(t + "+00:00") for t in _MOMENTS)),
    "w": ("timestamp_ntz", pa.timestamp("us"), tuple(map(dt.datetime.fromisoformat, _MOMENTS))),
    "x": ("binary", pa.binary(), (b"", b"a", b"\x00\xff", b"ab", "ä".encode())),
}  # fmt: skip
"""Name → its type in SQL and Arrow, and values that have made trouble somewhere."""
SCHEMA: Final = pa.schema([("id", pa.int64()), *((name, kind) for name, (_, kind, _) in COLUMNS.items())])
DEFINITION: Final = ", ".join(["id bigint", *(f"{name} {sql}" for name, (sql, _, _) in COLUMNS.items())])
_ORDERED = tuple(COLUMNS)
_COMPARISONS = ("=", "=", "<", "<=", ">", ">=", "<>", "!=", "<=>", "==")


def rows(rng: random.Random, count: int) -> pa.Table:
    """Rows that mix the values of the columns; each value is NULL once in eight times."""
    return pa.table(
        {
            "id": list(range(count)),
            **{
                name: [None if rng.random() < 0.125 else rng.choice(values) for _ in range(count)]
                for name, (_, _, values) in COLUMNS.items()
            },
        },
        schema=SCHEMA,
    )


def quoted(rng: random.Random, value: str) -> str:
    """A text in one of the ways to write it."""
    way = rng.random()
    if way < 0.08 and "'" not in value and "\\" not in value and "\n" not in value:
        return f"r'{value}'"
    if way < 0.2 and '"' not in value:
        return '"' + value.replace("\\", "\\\\").replace("\n", "\\n") + '"'
    if way < 0.26 and len(value) > 1 and value.isalnum():
        return f"'{value[:1]}' '{value[1:]}'"
    if way < 0.3 and len(value) == 1 and ord(value) < 0x10000:
        return f"'\\u{ord(value):04x}'"
    sign = rng.choice(["''", "\\'"])
    return "'" + value.replace("\\", "\\\\").replace("'", sign).replace("\n", "\\n") + "'"


_PLAIN: Final = ["0", "1", "-1", "10", "1.5", "0.1", "-0.0", "2", "1.50", "9007199254740993", "1e0"]
_NUMBERS: Final = (
    *("127", "128", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("0.0", "-5.00", "1.5e0", "-0e0", "0e0", "1e300"),
    *("16777217", "1L", "1S", "1Y", "1.5BD", "1D", "0.1F", "1F", "+1", "-(1)", "(1)", ".5"),
    *("5.", "007", "9999999.99", "-0.0000000001", "0.00000000001"),
    *("-9223372036854775808", "-2147483648", "-128", "1e-400", "99999999999999999999.5", "0.123456"),
    *("double('NaN')", "float('inf')"),
    *("- 1", "cast('NaN' as double)", "double('-Infinity')", "cast(1 as bigint)", "cast('1' as int)", "1 + 1"),
    *("cast(1.6 as int)", "cast(0.1 as float)", "cast(1.5 as decimal)"),
)


def _number(rng: random.Random) -> str:
    return rng.choice(_PLAIN if rng.random() < 0.4 else _NUMBERS)


def _day(rng: random.Random) -> str:
    day = rng.choice(_DAYS)
    if rng.random() < 0.75:
        return rng.choice([f"date'{day}'", f"DATE '{day}'", f"'{day}'", f"cast('{day}' as date)", f"'{day}'"])
    return rng.choice(
        [
            f"date'{day}'", f"DATE '{day}'", f"'{day}'", f"cast('{day}' as date)", f"date('{day}')",
            f"to_date('{day}')",
            f"'{day.replace('-0', '-')}'", f"'{day}T10:00:00'", f"' {day} '", f"'{day[:7]}'", f"'{day[:4]}'",
            f"'+{day}'",
            "'20240229'", "'2024-W09-4'", "'2023-02-29'", "date'2024-2-9'", "'epoch'", "'today is'", "'00012024-02-29'",
            "'2024-02-29 25:00:00'", f"date\"{day}\"",
        ]
    )  # fmt: skip


def _moment(rng: random.Random) -> str:
    text = rng.choice(_MOMENTS)
    zone = rng.choice(["Z", "+00:00", " UTC", "-05:00", " America/New_York", "+0530", "+5:30", " GMT+1", "+18:00"])
    if rng.random() < 0.7:
        return rng.choice(
            [f"timestamp'{text}'", f"'{text}'", f"timestamp_ntz'{text}'", f"'{text}{zone}'", f"'{text[:10]}'"]
        )
    return rng.choice(
        [
            f"timestamp'{text}'", f"timestamp_ntz'{text}'", f"timestamp_ltz'{text}'", f"'{text}'", f"'{text}{zone}'",
            f"timestamp'{text}{zone}'", f"timestamp_ntz'{text}{zone}'", f"cast('{text}' as timestamp)",
            f"'{text[:10]}'",
            f"cast('{text}' as timestamp_ntz)", f"'{text[:16]}'", f"'{text[:13]}'", f"'{text.replace(' ', 'T')}'",
            f"'{text[:19]}.5'", f"'{text[:19]}.1234567'", f"'{text[:19]}.'", "'2024-02-29 24:00:00'",
            "'20240229T120000'",
            "'2024-02-29 1:2:3'", "'2024-02-29T12'", "'T12:00'", "'12:00:00'", "'2024-02-29 12:00:60'", "'now'",
            f"'{text[:19]},5'", f"timestamp'{text[:10]}'", f"'{text[:10]}  {text[11:]}'", f"cast('{text}' as date)",
        ]
    )  # fmt: skip


def literal(rng: random.Random, name: str) -> str:
    """A value to compare a column with, or to put into it; once in ten times one of another type."""
    kind = rng.choice(_ORDERED) if rng.random() < 0.03 else name
    if rng.random() < 0.04:
        return rng.choice(["null", "NULL", "cast(null as int)", "(null)"])
    if kind == "b":
        return rng.choice(["true", "false", "TRUE", "'true'", "'f'", "'yes'", "1", "0", "'T'", "cast(1 as boolean)"])
    if kind in ("ti", "i", "n", "f", "d", "p", "q"):
        number = _number(rng)
        return f"'{number}'" if rng.random() < 0.12 and number.strip("-.0123456789e") == "" else number
    if kind in ("s", "v", "c"):
        text = quoted(rng, rng.choice(_TEXTS) + rng.choice(["", "", "", " ", "  "]))
        return rng.choice([text] * 8 + [f"cast({text} as char(6))", f"({text})", f"upper({text})", f"{text} || 'b'"])
    if kind == "day":
        return _day(rng)
    if kind in ("at", "w"):
        return _moment(rng)
    return rng.choice(["x'61'", "X'6162'", "x''", "x'00FF'", "'a'", "'ä'", "cast('ab' as binary)", "x'0'", "'\\0'"])


def _pattern(rng: random.Random) -> str:
    body = "".join(
        rng.choice(["a", "b", "%", "_", "\\%", "\\_", "\\\\", "ä", " ", "A", ""]) for _ in range(rng.randrange(4))
    )
    return "'" + (body + rng.choice(["", "%", "%"])).replace("\\", "\\\\") + "'"


def _named(rng: random.Random, name: str) -> str:
    return rng.choice([name] * 8 + [name.upper(), f"`{name}`", f"t.{name}", f"T.{name}", f"({name})"])


def _computed(rng: random.Random) -> str:
    """A comparison of what is made of a column."""
    return rng.choice(
        [
            f"upper(s) = {literal(rng, 's')}", f"length(c) > {rng.randrange(5)}", "i + 1 > 1", "ti * 2 = -2",
            f"cast(i as string) = {literal(rng, 's')}", f"cast(d as int) = {_number(rng)}", "year(day) = 2024",
            f"coalesce(s, 'a') = {literal(rng, 's')}", f"cast(at as date) = {_day(rng)}", f"date(w) >= {_day(rng)}",
            f"s || '' = {literal(rng, 's')}", f"cast(n as double) = {_number(rng)}", f"-i = {_number(rng)}",
            f"case when b then i else n end > {_number(rng)}", "nullif(i, 0) is null",
            f"if(b, s, c) = {literal(rng, 's')}",
            f"cast(p as int) < {_number(rng)}", f"trim(c) = {literal(rng, 's')}", "c || 'x' = 'ab  x'", "d % 2 = 0",
            f"cast(i as bigint) between {_number(rng)} and {_number(rng)}", f"cast(ti as int) in (1, {_number(rng)})",
            f"cast(day as timestamp) <= {_moment(rng)}", "isnan(d)", "not isnan(f)", "d is not null and isnull(s)",
            "(i, n) = (1, 1)", "abs(i) = 1", "cast(s as int) = 10", "try_cast(s as int) = 10", "s regexp '^a'",
            "current_date() > day", "i & 1 = 1", "~i = -1", "i = 1 ^ 3", "s is not distinct from v", "i div 2 = 0",
        ]
    )  # fmt: skip


def condition(rng: random.Random, depth: int = 2) -> str:
    """A condition on the columns; Spark may refuse it."""
    if depth and rng.random() < 0.3:
        first, second = condition(rng, depth - 1), condition(rng, depth - 1)
        return rng.choice(
            [
                f"{first} and {second}", f"{first} or {second}", f"({first}) and ({second})", f"({first} or {second})",
                f"not ({first})", f"not {first}", f"not not {first}", f"!({first})", f"({first}) is null",
                f"({first}) = ({second})", f"({first}) is not true", f"{first} or {second} and b",
                f"({first}) is unknown",
            ]
        )  # fmt: skip
    name = rng.choice(_ORDERED)
    column = _named(rng, name)
    shape = rng.randrange(22)
    if shape < 8:
        return f"{column} {rng.choice(_COMPARISONS)} {literal(rng, name)}"
    if shape < 10:
        return f"{literal(rng, name)} {rng.choice(_COMPARISONS)} {column}"
    if shape < 13:
        values = ", ".join(literal(rng, name) for _ in range(rng.randrange(1, 5)))
        return f"{column} {rng.choice(['in', 'in', 'not in'])} ({values})"
    if shape < 15:
        word = rng.choice(["between", "between", "not between"])
        return f"{column} {word} {literal(rng, name)} and {literal(rng, name)}"
    if shape < 17:
        word = rng.choice(["like", "like", "like", "not like", "ilike", "rlike"])
        more = rng.choice([""] * 6 + [" escape '/'", " escape '%'"])
        return f"{_named(rng, rng.choice(['s', 'v', 'c', 's', 'v', 'c', 'i']))} {word} {_pattern(rng)}{more}"
    if shape == 17:
        word = rng.choice(
            ["is null", "is not null", "is true", "is not false", "is unknown", "= null", "is not unknown"]
        )
        return f"{_named(rng, 'b') if 'null' not in word else column} {word}"
    if shape == 18:
        other = rng.choice(_ORDERED)
        return f"{column} {rng.choice([*_COMPARISONS, 'is distinct from'])} {_named(rng, other)}"
    if shape == 19:
        return rng.choice(
            ["b", "not b", "! b", "(b)", "b = true", "b is not true", "not b is null", "true", "1 = 1", "b <> false"]
        )
    if shape == 20:
        return f"{column} is {rng.choice(['', 'not '])}distinct from {literal(rng, name)}"
    return _computed(rng)

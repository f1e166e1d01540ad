"""Queries over two relations, ``{t}`` and ``{u}``, as hypothesis makes them; and the rows that both have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("grp", pa.int32()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("ratio", pa.float64()),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("flag", pa.bool_()),
        pa.field("info", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
COLUMNS = (
    "id bigint, day date, grp int, price decimal(9,2), ratio double, name string, at timestamp, flag boolean, "
    "info struct<a: int, b: string>"
)
_FIRST = dt.date(2024, 1, 1)
_NAMES = ("a", "ab", "abc", "A", "b%", "b_c", "", " ", "ä", "zz", "O'Hara", "10", "9")
_RATIOS = (0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e-300, 2.0)


def rows(seed: int, count: int) -> pa.Table:
    """So many rows; every column but the key and the day has NULLs."""

    def of(place: int, values: tuple) -> list:
        return [
            None if (n * 7 + seed + place) % 11 == 0 else values[(n * 31 + seed * place) % len(values)]
            for n in range(count)
        ]

    days = [_FIRST + dt.timedelta(days=(n + seed) % 4) for n in range(count)]
    prices = tuple(Decimal(cents) / 100 for cents in range(-500, 9_900, 137))
    times = tuple(dt.datetime(2024, 1, 1 + hours // 24, hours % 24, tzinfo=dt.UTC) for hours in range(0, 120, 5))
    infos = tuple({"a": a, "b": b} for a in (None, 0, 1, 2) for b in (None, "x", "y"))
    columns = {
        "id": [n * (1 + seed) for n in range(count)],
        "day": days,
        "grp": of(1, tuple(range(-3, 9))),
        "price": of(2, prices),
        "ratio": of(3, _RATIOS),
        "name": of(4, _NAMES),
        "at": of(5, times),
        "flag": of(6, (True, False)),
        "info": of(7, infos),
    }
    return pa.table(columns, schema=SCHEMA)


def _text(value: str) -> str:
    return "'" + value.replace("'", "\\'") + "'"


_INTEGERS = st.integers(-5, 130).map(str)
_DAYS = st.integers(-1, 5).map(lambda n: f"date '{_FIRST + dt.timedelta(days=n)}'")
_DAY_TEXTS = st.integers(-1, 5).map(lambda n: f"'{_FIRST + dt.timedelta(days=n)}'")
_TIMES = st.integers(0, 120).map(lambda h: f"timestamp '2024-01-0{1 + h // 24} {h % 24:02}:00:00'")
_STRINGS = st.sampled_from(_NAMES).map(_text)
_PATTERNS = st.sampled_from(["a%", "%b", "_", "a_%", "%", "", "ab", "b\\\\%%", "%''%", "%a%b%"]).map(_text)
_DECIMALS = st.sampled_from(["0", "1.37", "-5.00", "12.5", "98.1", "1e1"])
_DOUBLES = st.sampled_from(["0", "0.0", "-0.0", "1.5", "double('nan')", "double('infinity')", "2", "-1e308"])
_LITERALS = {
    "{r}.id": st.one_of(_INTEGERS, st.sampled_from(["3.5", "'7'", "2147483648", "9e18", "null"])),
    "{r}.grp": st.one_of(_INTEGERS, st.sampled_from(["0.5", "'2'", "cast(3 as tinyint)", "null"])),
    "{r}.price": st.one_of(_DECIMALS, _INTEGERS),
    "{r}.ratio": st.one_of(_DOUBLES, _INTEGERS),
    "{r}.name": _STRINGS,
    "{r}.day": st.one_of(_DAYS, _DAY_TEXTS),
    "{r}.at": st.one_of(_TIMES, _DAYS),
    "{r}.info.a": _INTEGERS,
    "{r}.info.b": _STRINGS,
    "cast({r}.price as int)": _INTEGERS,
    "cast({r}.id as string)": _STRINGS,
    "cast({r}.at as date)": _DAYS,
    "upper({r}.name)": _STRINGS,
    "year({r}.day) + {r}.grp": _INTEGERS,
}
_COMPARISONS = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"])


@st.composite
def _comparison(draw: st.DrawFn, of: str) -> str:
    name = draw(st.sampled_from(sorted(_LITERALS)))
    column = name.format(r=of)
    values = _LITERALS[name]
    shape = draw(st.sampled_from(["compare", "compare", "reverse", "in", "not in", "between", "null", "like", "flag"]))
    if shape == "compare":
        return f"{column} {draw(_COMPARISONS)} {draw(values)}"
    if shape == "reverse":
        return f"{draw(values)} {draw(_COMPARISONS)} {column}"
    if shape in ("in", "not in"):
        return f"{column} {shape} ({', '.join(draw(st.lists(values, min_size=1, max_size=4)))})"
    if shape == "between":
        return f"{column} {draw(st.sampled_from(['', 'not ']))}between {draw(values)} and {draw(values)}"
    if shape == "null":
        return f"{column} is {draw(st.sampled_from(['', 'not ']))}null"
    if shape == "like":
        return f"{of}.name {draw(st.sampled_from(['', 'not ']))}like {draw(_PATTERNS)}"
    return draw(st.sampled_from([f"{of}.flag", f"not {of}.flag", f"{of}.flag = false", f"{of}.flag is true"]))


def conditions(of: str) -> st.SearchStrategy[str]:
    """Conditions on the columns of a relation."""
    return st.recursive(
        _comparison(of),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: f"({two[0]} and {two[1]})"),
            st.tuples(inner, inner).map(lambda two: f"({two[0]} or {two[1]})"),
            inner.map(lambda one: f"not ({one})"),
        ),
        max_leaves=5,
    )


_SCALARS = st.lists(
    st.sampled_from(
        [*(f"t.{name}" for name in SCHEMA.names), "t.info.a", "t.id % 7", "coalesce(t.name, '?')", "t.price * 2"]
    ),
    min_size=1,
    max_size=4,
)
_TOTALS = (
    *("count(*)", "count(t.name)", "count(distinct t.grp)", "sum(t.price)", "min(t.at)", "max(t.name)", "min(t.ratio)"),
    *("max(t.day)", "sum(t.id)", "count_if(t.flag)"),
)
_AGGREGATES = st.lists(st.sampled_from(_TOTALS), min_size=1, max_size=4)
_GROUPS = st.lists(
    st.sampled_from(["t.day", "t.grp", "t.flag", "t.info.b", "substring(t.name, 1, 1)"]), max_size=2, unique=True
)


_DAY_COUNTS = st.sampled_from(
    [
        " from {t}",
        ", t.day as d from {t} t group by t.day",
        " from {t} t where t.day >= '2024-01-02'",
        ", max(t.day) as d from {t} t",
        ", t.day as d from {t} t where t.day <> date '2024-01-02' group by 2 having count(*) > 25",
        " from {t} t where t.day > date '2030-01-01'",
    ]
)


@st.composite
def _day_joins(draw: st.DrawFn, where: str) -> str:
    """Joins on the day, by which some of the tables have partitions."""
    more = f" and {draw(conditions('u'))}" if draw(st.booleans()) else ""
    kind = draw(
        st.sampled_from(["join", "left join", "right join", "full join", "left semi join", "left anti join", "in"])
    )
    if kind == "in":
        word = draw(st.sampled_from(["in", "not in"]))
        inner = f"t.day {word} (select u.day from {{u}} u where {draw(conditions('u'))})"
        both = f"{where} and {inner}" if where else f" where {inner}"
        return f"select t.id, t.day from {{t}} t{both}"
    columns = "t.id as a, t.day as b" + ("" if "semi" in kind or "anti" in kind else ", u.id as c, u.day as d")
    last = f"{where} and {draw(conditions('u'))}" if where and "left " not in kind else where
    return f"select {columns} from {{t}} t {kind} {{u}} u on t.day = u.day and t.id % 9 = u.id % 9{more}{last}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query; the order of its answer does not count."""
    where = f" where {draw(conditions('t'))}" if draw(st.booleans()) else ""
    shapes = [
        "rows",
        "rows",
        "totals",
        "join",
        "in",
        "exists",
        "limit",
        "union",
        "with",
        "counts",
        "partitions",
        "first",
    ]
    shape = draw(st.sampled_from(shapes))
    if shape == "rows":
        return f"select {_named(draw(_SCALARS))} from {{t}} t{where}"
    if shape == "totals":
        groups = draw(_GROUPS)
        grouped = f" group by {', '.join(groups)}" if groups else ""
        return f"select {_named([*groups, *draw(_AGGREGATES)])} from {{t}} t{where}{grouped}"
    if shape == "join":
        kind = draw(st.sampled_from(["join", "left join", "full join", "left semi join", "left anti join"]))
        more = f" and {draw(conditions('u'))}" if draw(st.booleans()) else ""
        on = draw(
            st.sampled_from(["t.id = u.id", "t.id = u.id and t.day = u.day", "t.grp = u.grp and t.name = u.name"])
        )
        columns = "t.id as a, t.name as b" + ("" if "semi" in kind or "anti" in kind else ", u.id as c, u.price as d")
        return f"select {columns} from {{t}} t {kind} {{u}} u on {on}{more}{where}"
    if shape == "counts":
        return f"select count(*) as n{draw(_DAY_COUNTS)}"
    if shape == "partitions":
        return draw(_day_joins(where))
    if shape == "first":  # which rows is nobody's to say, but how many
        return f"select count(*) + 0 as n from (select t.name from {{t}} t limit {draw(st.integers(0, 150))}) q"
    if shape == "in":
        word = draw(st.sampled_from(["in", "not in"]))
        inner = f"select u.id from {{u}} u where {draw(conditions('u'))}"
        return f"select t.id, t.day from {{t}} t where t.id {word} ({inner})"
    if shape == "exists":
        word = draw(st.sampled_from(["", "not "]))
        inner = f"select 1 from {{u}} u where u.grp = t.grp and {draw(conditions('u'))}"
        return f"select t.id, t.name from {{t}} t where {word}exists ({inner})"
    if shape == "limit":
        return f"select t.id, t.name from {{t}} t{where} order by t.id desc limit {draw(st.integers(0, 20))}"
    if shape == "union":
        return f"select t.id from {{t}} t{where} union all select u.id from {{u}} u where {draw(conditions('u'))}"
    return f"with q as (select * from {{t}} t{where}) select q.day, count(*) from q group by q.day having count(*) > 1"


def _named(expressions: list[str]) -> str:
    return ", ".join(f"{text} as c{n}" for n, text in enumerate(expressions))

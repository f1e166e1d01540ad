"""Predicates: SQL's rules on rows, and never a file skipped that has a match."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidRequest
from lakelog.filestore.skipping.predicate import (
    And,
    ColumnBounds,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    conjunction,
    conjuncts,
    equal_values,
    restrict_to,
)

DAY = dt.datetime(2024, 1, 1, 5)
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "f": pa.array([0.1, 2.0, 3.0], pa.float32()),
        "d": pa.array([dt.date(2024, 1, 1)] * 3),
        "t": pa.array([DAY] * 3, pa.timestamp("ms")),
        "z": pa.array([DAY] * 3, pa.timestamp("us", "UTC")),
        "s": pa.array(["ab", "b", None]),
        "n": pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(9, 2)),
    }
)


@pytest.mark.parametrize(
    ("predicate", "matches"),
    [
        (Compare("i", "=", 1), 1),
        (Compare("i", "!=", 1), 1),
        (Compare("i", ">", 1.5), 1),
        (Compare("i", "<", 2**40), 2),
        (Compare("i", "=", None), 0),
        (Compare("f", "=", 0.1), 0),
        (Compare("f", ">=", 2), 2),
        (Compare("d", "=", dt.date(2024, 1, 1)), 3),
        (Compare("d", "<", DAY), 3),
        (Compare("t", "=", DAY), 3),
        (Compare("z", "=", DAY.replace(tzinfo=dt.UTC)), 3),
        (Compare("n", ">", 1), 2),
        (Compare("n", "<", Decimal("1.501")), 1),
        (Compare("n", "=", Decimal("1.5")), 1),
        (In("i", (1, 2.0, None)), 2),
        (In("i", (None,)), 0),
        (In("i", ()), 0),
        (In("n", (1, Decimal("2"))), 1),
        (Not(In("i", (1,))), 1),
        (Not(In("i", (1, None))), 0),
        (Not(Compare("i", "<=", 1)), 1),
        (Not(Not(Compare("i", "<=", 1))), 1),
        (IsNull("s"), 1),
        (Not(IsNull("s")), 2),
        (StartsWith("s", "a"), 1),
        (Not(StartsWith("s", "a")), 1),
        (Not(And(Compare("i", "=", 1), StartsWith("s", "a"))), 1),
        (Or(Compare("i", "=", 1), IsNull("i")), 2),
        (Not(Or(Compare("i", "=", 1), Compare("i", "=", 3))), 1),
        (And(), 3),
        (Or(), 0),
    ],
    ids=str,
)
def test_a_predicate_matches_as_in_sql(predicate: Predicate, matches: int) -> None:
    assert ROWS.filter(predicate.to_arrow(ROWS.schema)).num_rows == matches
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="unknown operator '~' on column 'i'"):
        Compare("i", "~", 1)


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "text"),
        (np.datetime64(1, "ns"), np.datetime64(2, "ns"), dt.datetime(2024, 1, 1)),
        (float("nan"), float("nan"), 1.0),
        (None, None, 5),
        (dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.datetime(2020, 1, 1)),
    ],
)
def test_bounds_that_cannot_be_compared_skip_nothing(low: Any, high: Any, value: Any) -> None:
    for op in ("=", "!=", "<", "<=", ">", ">="):
        assert Compare("c", op, value).may_match({"c": ColumnBounds(low, high, 0, 5)})
    assert Compare("c", "=", value).may_match({})


def test_columns_of_only_nulls_match_only_is_null() -> None:
    bounds = {"c": ColumnBounds(None, None, 3, 3)}
    assert IsNull("c").may_match(bounds)
    for predicate in (Compare("c", "=", 1), In("c", (1,)), StartsWith("c", "a"), Not(IsNull("c"))):
        assert not predicate.may_match(bounds)
    assert not IsNull("c").may_match({"c": ColumnBounds(1, 2, 0, 3)})


VALUES = st.none() | st.sampled_from(["", "a", "ab", "abc", "b", "ba", "é", "\U0001f600"])
LEAVES = st.one_of(
    st.builds(Compare, st.just("s"), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES),
    st.builds(In, st.just("s"), st.lists(VALUES, max_size=3).map(tuple)),
    st.builds(IsNull, st.just("s")),
    st.builds(StartsWith, st.just("s"), st.sampled_from(["", "a", "ab", "b", "\U0001f600"])),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
    max_leaves=6,
)


@given(predicate=PREDICATES, rows=st.lists(VALUES, min_size=1, max_size=6))
def test_no_file_with_a_match_is_skipped(predicate: Predicate, rows: list[str | None]) -> None:
    table = pa.table({"s": pa.array(rows, pa.string())})
    known = [r for r in rows if r is not None]
    bounds = {"s": ColumnBounds(min(known, default=None), max(known, default=None), rows.count(None), len(rows))}
    if table.filter(predicate.to_arrow(table.schema)).num_rows:
        assert predicate.may_match(bounds)
    negated = table.filter(predicate.negated().to_arrow(table.schema)).num_rows
    assert negated + table.filter(predicate.to_arrow(table.schema)).num_rows <= len(rows)


def test_parts_of_a_predicate_are_distinguished() -> None:
    one, two, both = Compare("a", "=", 1), In("b", (2, 3)), Or(Compare("a", "=", 1), Compare("b", "=", 1))
    whole = And(one, And(two, both))
    assert conjuncts(whole) == (one, two, both)
    assert conjuncts(None) == ()
    assert conjunction([]) is None
    assert restrict_to(whole, ["a"]) == one
    assert restrict_to(whole, ["c"]) is None
    assert restrict_to(whole, ["a", "b"]) == And(one, two, both)
    assert equal_values(whole, "a") == (1,)
    assert equal_values(whole, "b") == (2, 3)
    assert equal_values(both, "a") is None
    assert whole.columns == {"a", "b"}
    assert whole.renamed({"a": "x"}).columns == {"x", "b"}
    assert Not(StartsWith("a", "p")).renamed({"a": "x"}) == Not(StartsWith("x", "p"))


_NUMBERS = st.one_of(st.none(), st.integers(-200, 200), st.just(2**70))


@given(
    st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float64()]),
    st.one_of(
        st.lists(_NUMBERS),
        st.lists(st.sampled_from([None, "", "a", "7"])),
        st.lists(st.one_of(_NUMBERS, st.booleans())),
    ),
)
def test_a_set_of_values_is_its_comparisons(kind: pa.DataType, values: list[Any]) -> None:
    """Integers and texts are compared at once, and whatever the column cannot hold one by one."""
    of = {"int8": [-128, 7, None], "int32": [200, 0, None], "int64": [2**62, 1, None], "string": ["a", "7", None]}
    rows = pa.table({"c": pa.array(of.get(str(kind), [True, False, None]), kind)})
    try:
        wanted = rows.filter(Or(*(Compare("c", "=", v) for v in values if v is not None)).to_arrow(rows.schema))
    except (pa.ArrowException, OverflowError):
        return
    assert rows.filter(In("c", tuple(values)).to_arrow(rows.schema)).equals(wanted)

"""Every aggregate function against its plain words: any steps, any values, any number of keys at once."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import DEPTH
from lakelog.errors import InvalidOption, InvalidRequest, InvalidSchema, UnsupportedFeature
from lakelog.merge.aggregates import AGGREGATES, make_aggregate
from lakelog.merge.steps import Steps
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import DataField, parse_type
from merge_reference import ADD, ADD_REVERSED, RETRACT, SET, SKIP, Accumulator, NoResult

WHOLE = st.integers(-3, 3)
EDGES = {name: st.sampled_from([0, 1, -1, 2, -(1 << b), (1 << b) - 1]) for name, b in (("TINYINT", 7), ("BIGINT", 63))}
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.1, 3.0, 1e30])
MONEY = st.decimals(-99, 99, places=2) | st.sampled_from([Decimal("0.50"), Decimal("2.00"), Decimal("99.99")])
LARGE = st.sampled_from([Decimal("9" * 28 + ".99"), Decimal("-" + "9" * 28 + ".99"), Decimal("0.01"), Decimal("2.00")])
SHORT = st.sampled_from([Decimal(10**18 - 1), Decimal(1 - 10**18), Decimal(7), Decimal(0)])
TEXTS = st.sampled_from(["", " ", "a", "b", "a,b", "b,,a", "é", "\t"])
ROW = {"id": "INT", "age": "INT", "text": "STRING"}
ROW_TYPE = {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(ROW.items())]}
ROWS = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 2), "age": st.none() | WHOLE, "text": st.sampled_from("xy")}),
    max_size=3,
)
STAMPS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(lambda t: t.replace(fold=0))

CASES: list[tuple[str, Any, st.SearchStrategy[Any], dict[str, str]]] = [
    *[("sum", kind, values, {}) for kind, values in EDGES.items()],
    *[("sum", kind, FLOATS, {}) for kind in ("FLOAT", "DOUBLE")],
    ("sum", "DECIMAL(6, 2)", MONEY, {}),
    ("sum", "DECIMAL(18, 0)", SHORT, {}),
    ("sum", "DECIMAL(30, 2)", LARGE, {}),
    *[("product", kind, values | WHOLE, {}) for kind, values in EDGES.items()],
    *[("product", kind, FLOATS, {}) for kind in ("FLOAT", "DOUBLE")],
    ("product", "DECIMAL(6, 2)", MONEY, {}),
    ("product", "DECIMAL(30, 2)", LARGE, {}),
    *[
        (name, kind, values, {})
        for name in ("max", "min")
        for kind, values in (
            ("INT", WHOLE),
            ("BIGINT", EDGES["BIGINT"]),
            ("DOUBLE", FLOATS),
            ("STRING", TEXTS),
            ("DECIMAL(30, 2)", LARGE),
            ("TIMESTAMP(6)", STAMPS),
            ("DATE", st.dates()),
            ("VARBINARY(9)", st.binary(max_size=2)),
        )
    ],  # fmt: skip
    *[(name, "STRING", TEXTS, {}) for name in ("last_value", "last_non_null_value", "primary-key")],
    *[(name, "STRING", TEXTS, {}) for name in ("first_value", "first_non_null_value", "first_not_null_value")],
    ("listagg", "STRING", TEXTS, {}),
    ("listagg", "STRING", TEXTS, {"distinct": "true"}),
    ("listagg", "STRING", TEXTS, {"list-agg-delimiter": " | ", "ignore-retract": "true"}),
    *[(name, "BOOLEAN", st.booleans(), {}) for name in ("bool_and", "bool_or")],
    ("collect", {"type": "ARRAY", "element": "STRING"}, st.lists(st.none() | TEXTS, max_size=3), {}),
    ("collect", {"type": "ARRAY", "element": "INT"}, st.lists(WHOLE, max_size=3), {"distinct": "true"}),
    ("collect", {"type": "ARRAY", "element": ROW_TYPE}, ROWS, {"distinct": "true"}),
    (
        "merge_map",
        {"type": "MAP", "key": "STRING", "value": "INT"},
        st.dictionaries(TEXTS, WHOLE, max_size=3).map(lambda m: list(m.items())),
        {},
    ),
    ("nested_update", {"type": "ARRAY", "element": ROW_TYPE}, ROWS, {}),
    ("nested_update", {"type": "ARRAY", "element": ROW_TYPE}, ROWS, {"count-limit": "2"}),
    ("nested_update", {"type": "ARRAY", "element": ROW_TYPE}, ROWS, {"nested-key": "id"}),
    ("nested_update", {"type": "ARRAY", "element": ROW_TYPE}, ROWS, {"nested-key": "id,text", "count-limit": "2"}),
    (
        "nested_update",
        {"type": "ARRAY", "element": ROW_TYPE},
        ROWS,
        {"nested-key": "id", "nested-sequence-field": "age"},
    ),
]
OPS = st.sampled_from([ADD, ADD, ADD, ADD_REVERSED, RETRACT, SET, SKIP])


def column_of(kind: Any) -> DataField:
    return DataField(1, "f", parse_type(kind))


def options_of(options: dict[str, str]) -> dict[str, str]:
    return {f"fields.f.{key}": value for key, value in options.items()}


def canonical(value: Any, function: str) -> str:
    """Equal for equal results; the order inside nested results is not defined."""
    if function in ("collect", "merge_map", "nested_update") and value is not None:
        return repr(sorted(repr(sorted(v.items()) if isinstance(v, dict) else v) for v in value))
    return repr(float(value)) if isinstance(value, np.floating) else repr(value)


def test_every_function_has_a_case() -> None:
    assert {name for name, *_ in CASES} == set(AGGREGATES)


@pytest.mark.parametrize(
    ("function", "kind", "values", "options"), CASES, ids=lambda v: v if isinstance(v, str) else None
)
@settings(max_examples=DEPTH.cases(20))
@given(data=st.data())
def test_a_function_aggregates_like_its_reference(function, kind, values, options, data) -> None:  # type: ignore[no-untyped-def]
    keys = data.draw(st.lists(st.lists(st.tuples(OPS, st.none() | values), min_size=1, max_size=6), max_size=5))
    steps = [step for key in keys for step in key]
    arrow = arrow_type(column_of(kind).type)
    column = pa.array([value for _, value in reversed(steps)], arrow)
    sizes = np.array([len(key) for key in keys], dtype=np.int64)
    made = Steps(
        np.arange(len(steps))[::-1],
        np.array([op for op, _ in steps], dtype=np.uint8),
        np.cumsum(sizes) - sizes,
    )
    expected = []
    try:
        for key in keys:
            accumulator = Accumulator(function, str(kind), options)
            for op, value in key:
                is_float = value is not None and pa.types.is_floating(arrow)
                accumulator.step(op, arrow.to_pandas_dtype()(value) if is_float else value)
            expected.append(accumulator.result())
    except NoResult:
        expected = None
    aggregate = make_aggregate(function, column_of(kind), options_of(options))
    if expected is None:
        with pytest.raises(InvalidSchema, match=f"'{function}' of column 'f'"):
            aggregate.apply(column, made)
        return
    if not keys:
        return
    result = aggregate.apply(column, made)
    assert result.type == arrow
    got = [canonical(v, function) for v in result.to_pylist()]
    assert got == [canonical(v, function) for v in expected]


def test_one_key_with_very_many_values_is_summed_from_the_first_to_the_last() -> None:
    random = np.random.default_rng(3)
    numbers = random.random(5000) * 10.0 ** random.integers(-9, 9, 5000)
    steps = Steps(np.arange(5000), np.full(5000, ADD, np.uint8), np.array([0, 4000]))
    result = make_aggregate("sum", column_of("DOUBLE"), {}).apply(pa.array(numbers), steps)
    assert result.to_pylist() == [sum(numbers[:4000].tolist()), sum(numbers[4000:].tolist())]


def test_a_product_divides_by_the_smallest_number() -> None:
    smallest = -(1 << 63)
    steps = Steps(np.arange(6), np.array([ADD, RETRACT] * 3, np.uint8), np.array([0, 2, 4]))
    values = pa.array([5, smallest, smallest, smallest, smallest, 2])
    result = make_aggregate("product", column_of("BIGINT"), {}).apply(values, steps)
    assert result.to_pylist() == [0, 1, smallest // 2]
    result = make_aggregate("product", column_of("BIGINT"), {}).apply(pa.array([smallest, -1] * 3), steps)
    assert result.to_pylist() == [None] * 3, "the result does not fit"


def test_a_retraction_that_a_function_cannot_do_names_the_option_that_skips_it() -> None:
    steps = Steps(np.array([0, 1]), np.array([ADD, RETRACT], np.uint8), np.array([0]))
    column = pa.array([1, 2], pa.int32())
    with pytest.raises(InvalidSchema, match=r"'fields\.f\.ignore-retract' = 'true'"):
        make_aggregate("max", column_of("INT"), {}).apply(column, steps)
    ignoring = make_aggregate("max", column_of("INT"), {"fields.f.ignore-retract": "true"})
    assert ignoring.apply(column, steps).to_pylist() == [1]


@pytest.mark.parametrize("name", ["theta_sketch", "hll_sketch", "rbm32", "rbm64"])
def test_a_sketch_is_named(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"'{name}' of column 'f'"):
        make_aggregate(name, column_of("BYTES"), {})


@pytest.mark.parametrize(
    ("name", "kind", "error", "text"),
    [
        ("summ", "INT", InvalidRequest, "did you mean 'sum'"),
        ("sum", "STRING", InvalidOption, "'sum' does not fit column 'f' of type STRING"),
        ("listagg", "INT", InvalidOption, "VARCHAR"),
        ("nested_update", {"type": "ARRAY", "element": "INT"}, InvalidOption, "ARRAY<ROW>"),
    ],
)
def test_a_function_that_does_not_fit_its_column_is_refused(name, kind, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        make_aggregate(name, column_of(kind), {})

"""The curve that rows are laid out by."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.table.write.clustering import ZOrder


def curve(*columns: pa.Array) -> ZOrder:
    return ZOrder.of_sample([pa.chunked_array([column]) for column in columns])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, 1, 2, 3]),
        pa.array([None, "a", "b", "b c"]),
        pa.array([None, Decimal("-1.50"), Decimal("0.25"), Decimal("9.00")]),
        pa.array([None, dt.date(1, 1, 1), dt.date(2020, 1, 1), dt.date(9999, 1, 1)]),
        pa.array([None, dt.datetime(1960, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]),
        pa.array([None, b"", b"a", b"b"]),
        pa.array([None, -1.5, 0.0, float("nan")]),
        pa.array([None, False, False, True]),
    ],
    ids=lambda values: str(values.type),
)
def test_one_column_of_any_type_keeps_its_order(values: pa.Array) -> None:
    found = curve(values).positions([values]).to_pylist()
    assert found == sorted(found) and found[0] < found[-1]


@given(st.lists(st.integers(0, 15), min_size=4, max_size=60), st.randoms(use_true_random=False))
def test_the_place_has_the_bits_of_both_ranks_in_turn(numbers: list[int], random) -> None:
    left, right = pa.array(numbers), pa.array([random.randrange(16) for _ in numbers])
    whole = pa.array(range(16))
    found = curve(whole, whole).positions([left, right]).to_pylist()
    ranks = [dict(zip(range(16), curve(whole).positions([whole]).to_pylist(), strict=True))[n] for n in range(16)]
    width = max(ranks).bit_length()
    for x, y, place in zip(left.to_pylist(), right.to_pylist(), found, strict=True):
        pairs = [(ranks[x] >> bit & 1) * 2 + (ranks[y] >> bit & 1) for bit in reversed(range(width))]
        assert place == sum(pair << 2 * at for at, pair in enumerate(reversed(pairs)))


def test_a_column_of_few_values_counts_as_much_as_one_of_many() -> None:
    many, two = np.arange(4_096), np.arange(4_096) % 2
    found = curve(pa.array(many), pa.array(two)).positions([pa.array(many), pa.array(two)]).to_numpy()
    first = two[np.argsort(found)[:1_024]]  # the first quarter of the curve has the lower half of each
    assert set(first) == {0}


def test_skewed_values_spread_evenly() -> None:
    values = pa.array((np.arange(10_000) ** 4).tolist())
    found = curve(values).positions([values]).to_numpy()
    quarters = np.histogram(found, 4, (0, found.max() + 1))[0]
    assert quarters.min() > 2_000


def test_nothing_to_learn_from_and_too_many_columns() -> None:
    nothing = pa.array([], pa.int64())
    assert curve(nothing).positions([pa.array([3, None])]).to_pylist() == [0, 0]
    wide = [pa.array([1, 2, 3])] * 40
    assert curve(*wide).positions(wide).to_pylist()[0] == 0


def test_it_travels_to_workers() -> None:
    values = pa.array([5, 1, 3])
    made = curve(values)
    assert pickle.loads(pickle.dumps(made)).positions([values]).equals(made.positions([values]))

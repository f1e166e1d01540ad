"""Keys of one list found in another one."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.merge.keys import find_keys, key_parts

KEYS: dict[str, tuple[list[pa.DataType], Any]] = {
    "int": ([pa.int32()], lambda n: (n - 50,)),
    "text": ([pa.string()], lambda n: (f"é{n % 7}{n}",)),
    "two numbers": ([pa.int64(), pa.int16()], lambda n: (n // 9, n % 9)),
    "number and text": ([pa.int64(), pa.string()], lambda n: (n // 9, f"k{n % 9}")),
    "large numbers": ([pa.int64(), pa.int64()], lambda n: ((n // 9 - 6) << 60, n << 50)),
    "time": ([pa.timestamp("us")], lambda n: (dt.datetime(2024, 1, 1) + dt.timedelta(seconds=n),)),
    "long decimal": ([pa.decimal128(30, 2)], lambda n: (Decimal(n * 10**20).scaleb(-2),)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_each_key_is_found_where_it_is(kind) -> None:
    types, make = KEYS[kind]
    chance = random.Random(kind)

    def rows(numbers: list[int]) -> tuple[list[tuple[Any, ...]], list[Any]]:
        keys = sorted(
            (make(n) for n in numbers), key=lambda k: tuple(v.encode() if isinstance(v, str) else v for v in k)
        )
        names = [f"k{at}" for at in range(len(types))]
        arrays = [pa.array([k[at] for k in keys], kind) for at, kind in enumerate(types)]
        return keys, key_parts(pa.record_batch(arrays, names=names), names)

    for _ in range(20):
        wanted, wanted_parts = rows(chance.sample(range(100), chance.randrange(1, 30)))
        among, among_parts = rows(chance.sample(range(100), chance.randrange(0, 60)))
        place = {key: at for at, key in enumerate(among)}
        assert find_keys(wanted_parts, among_parts).tolist() == [place.get(key, -1) for key in wanted]

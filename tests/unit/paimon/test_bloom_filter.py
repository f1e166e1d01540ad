"""Bloom filters: nothing that was added is missed, their size, the types that have a hash."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.index.bloom_filter import BloomFilter, hash_values
from lakelog.paimon.types.types import ArrayType, parse_type


def test_values_that_were_added_are_found_and_few_others() -> None:
    filter = BloomFilter.sized(1000, 0.01)
    kind = parse_type("BIGINT")
    filter.add(hash_values(pa.array(range(500)), kind))
    filter.add(hash_values(pa.array(range(500, 1000)), kind))
    again = BloomFilter.from_bytes(filter.to_bytes())
    assert again.functions == filter.functions
    hashes = hash_values(pa.array(range(11_000)), kind)
    found = [again.may_have_any(hashes[i : i + 1]) for i in range(11_000)]
    assert all(found[:1000])
    assert sum(found[1000:]) < 250
    assert again.may_have_any(hash_values(pa.array([70_001, 3]), kind))


@pytest.mark.parametrize(("items", "fpp", "functions", "size"), [(1_000_000, 0.1, 3, 599_067), (10, 0.5, 1, 2)])
def test_a_filter_has_the_size_that_the_format_gives_it(items: int, fpp: float, functions: int, size: int) -> None:
    filter = BloomFilter.sized(items, fpp)
    assert (filter.functions, len(filter.bits)) == (functions, size)
    assert len(filter.to_bytes()) == size + 4


@pytest.mark.parametrize(
    ("kind", "one", "same"),
    [
        ("INT", pa.array([7, None], pa.int32()), pa.array([7], pa.int64())),
        ("TINYINT", pa.array([-7], pa.int8()), pa.array([-7], pa.int64())),
        ("DATE", pa.array([dt.date(1970, 1, 5)]), pa.array([4], pa.int64())),
        ("TIME(3)", pa.array([dt.time(0, 0, 1)], pa.time32("ms")), pa.array([1000], pa.int64())),
        ("TIMESTAMP(3)", pa.array([-1], pa.timestamp("ms")), pa.array([-1], pa.int64())),
        ("TIMESTAMP(6)", pa.array([-1001], pa.timestamp("us")), pa.array([-1001], pa.int64())),
        ("TIMESTAMP(9)", pa.array([-1001], pa.timestamp("ns")), pa.array([-2], pa.int64())),
        ("DOUBLE", pa.array([1.5]), pa.array([0x3FF8000000000000], pa.int64())),
        ("FLOAT", pa.array([-1.5], pa.float32()), pa.array([0xBFC00000 - (1 << 32)], pa.int64())),
        ("DOUBLE", pa.array([-np.nan]), pa.array([0x7FF8000000000000], pa.int64())),
        ("BYTES", pa.array([b"a"]), None),
    ],
)
def test_every_type_is_hashed_as_its_whole_number_or_its_bytes(kind: str, one: pa.Array, same: pa.Array | None) -> None:
    found = hash_values(one, parse_type(kind))
    if same is None:
        assert found.tolist() == hash_values(pa.array(["a"]), parse_type("STRING")).tolist()
    else:
        assert found.tolist() == hash_values(same, parse_type("BIGINT")).tolist()


@pytest.mark.parametrize("kind", [parse_type("BOOLEAN"), parse_type("DECIMAL(9, 2)"), ArrayType(parse_type("INT"))])
def test_types_without_a_hash_are_refused(kind) -> None:
    with pytest.raises(UnsupportedFeature, match="cannot have a Bloom filter"):
        hash_values(pa.nulls(0), kind)


def test_bytes_that_are_no_filter_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="3 bytes are not a Bloom filter"):
        BloomFilter.from_bytes(b"abc")
    with pytest.raises(Corrupt, match="8 bytes are not a Bloom filter"):
        BloomFilter.from_bytes(b"\x7f" * 8)

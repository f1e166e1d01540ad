from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.io.storage.ranged_input import RangedInput

DATA = bytes(i % 251 for i in range(5000))


class Small(RangedInput):
    """Small blocks, so that a small file has a middle."""

    TAIL_BYTES = 100
    AHEAD_BYTES = 300


def opened(data: bytes, kind: type[RangedInput] = Small) -> tuple[RangedInput, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def fetch(start: int, length: int) -> bytes:
        assert length > 0
        assert start + length <= len(data)
        asked.append((start, length))
        return data[start : start + length]

    return kind(fetch, len(data), data[-kind.TAIL_BYTES :]), asked


@given(st.lists(st.tuples(st.integers(0, 5200), st.integers(-1, 1200)), max_size=8))
def test_every_range_is_that_of_the_file(ranges: list[tuple[int, int]]) -> None:
    source, _ = opened(DATA)
    plain = io.BytesIO(DATA)
    for start, length in ranges:
        assert source.seek(start) == plain.seek(start)
        assert source.read(length) == plain.read(length)
        assert source.tell() == plain.tell() or start > len(DATA)


def test_the_end_costs_no_request_and_neighbours_cost_one() -> None:
    source, asked = opened(DATA)
    source.seek(-50, io.SEEK_END)
    assert source.read() == DATA[-50:]
    assert asked == []
    source.seek(1000)
    assert source.read(10) + source.read(200) == DATA[1000:1210]
    assert asked == [(1000, 300)]
    source.seek(-10, io.SEEK_CUR)
    assert source.read(10) == DATA[1200:1210]
    assert len(asked) == 1


def test_a_whole_read_is_one_request() -> None:
    source, asked = opened(DATA)
    assert source.readall() == DATA
    assert asked == [(0, 4900)]


@pytest.mark.parametrize(("rows", "most"), [(1000, 0), (400_000, 3)])
def test_a_parquet_file_costs_few_requests(rows: int, most: int) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({name: range(rows) for name in "abcd"}), sink, compression="none", use_dictionary=False)
    source, asked = opened(sink.getvalue(), RangedInput)
    file = pq.ParquetFile(pa.PythonFile(source, mode="r"), pre_buffer=True)
    assert file.read(["b"]).num_rows == rows
    assert len(asked) <= most

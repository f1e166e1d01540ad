"""A row finds the bit that says whether it counts, whatever the sizes and names of the files are."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from lakelog.spark.native.position_filter import MaskedFile, PositionBitmaps, bits_of, pack_bitmaps


def bit(table: PositionBitmaps, name: str, size: int, row: int) -> int:
    """What the filter computes for a row."""
    begin = table.words[size & (table.size_slots - 1)]
    if begin < 0:
        begin = table.words[table.size_slots + (zlib.crc32(name.encode()) & (table.name_slots - 1))]
    return int(table.words[begin + (row >> 6)] >> (row & 63)) & 1


@pytest.mark.parametrize("sizes", [1, 7, 10_000], ids=["all of one size", "some alike", "nearly all different"])
def test_each_row_finds_its_bit(sizes) -> None:
    chance = np.random.default_rng(1)
    masks = [chance.random(chance.integers(1, 200)) < 0.3 for _ in range(300)]
    files = [MaskedFile(f"data-{at}.parquet", int(chance.integers(sizes)), bits_of(m)) for at, m in enumerate(masks)]
    (table,) = pack_bitmaps(files)
    for file, mask in zip(files, masks, strict=True):
        assert [bit(table, file.name, file.size, row) for row in range(len(mask))] == mask.tolist()


def test_many_bits_make_several_tables() -> None:
    words = np.zeros(1 << 19, dtype=np.int64)
    files = [MaskedFile(f"{at}", at, words) for at in range(5)]
    assert [sorted(table.files) for table in pack_bitmaps(files)] == [["0", "1"], ["2", "3"], ["4"]]
    assert list(pack_bitmaps([])) == []


def test_names_that_look_alike_go_to_tables_of_their_own() -> None:
    # the checksum of both is the same
    files = [MaskedFile(name, 5, bits_of(np.array([True]))) for name in ("plumless", "buckeroo")]
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    assert [table.files for table in pack_bitmaps(files)] == [{"plumless"}, {"buckeroo"}]

"""Both kinds of deletion vectors are read, and damage is told."""

from __future__ import annotations

import struct
import zlib

import pytest
from pyroaring import BitMap, BitMap64

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.index.deletion_vector import decode_vector, size_of_vector


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def vector_32(positions: list[int]) -> bytes:
    return framed(struct.pack(">i", 1581511376) + BitMap(positions).serialize())


def vector_64(positions: list[int]) -> bytes:
    return framed(struct.pack("<i", 1681511377) + BitMap64(positions).serialize())


@pytest.mark.parametrize("write", [vector_32, vector_64], ids=["32", "64"])
@pytest.mark.parametrize(
    "positions",
    [[], [0], [5], [0, 65535, 65536, 2**31, 2**32 - 1], list(range(100_000)), list(range(0, 300_000, 7))],
    ids=["none", "first", "one", "large", "run", "every seventh"],
)
def test_positions_come_back_ascending(write, positions) -> None:
    assert decode_vector(write(positions)).tolist() == positions


def test_positions_beyond_32_bits_come_back_from_the_64_bit_kind() -> None:
    assert decode_vector(vector_64([3, 2**32, 2**32 + 7, 2**40])).tolist() == [3, 2**32, 2**32 + 7, 2**40]


def test_a_vector_that_paimon_wrote_is_read() -> None:
    seen = bytes.fromhex("000000165e43f2d03a300000010000000000000010000000" + "05009e479496")
    assert decode_vector(seen).tolist() == [5]
    assert size_of_vector(seen[:4]) == len(seen)


@pytest.mark.parametrize("at", [4, 10, 20, -1])
def test_a_flipped_bit_is_detected(at) -> None:
    data = bytearray(vector_32([1, 2, 3]))
    data[at] ^= 1
    with pytest.raises(Corrupt, match="checksum"):
        decode_vector(bytes(data))


@pytest.mark.parametrize("data", [b"", vector_32([1])[:-1], b"\x00\x00\x00\x09" + vector_32([1])[4:]])
def test_a_size_that_does_not_match_is_reported(data) -> None:
    with pytest.raises(Corrupt, match="size"):
        decode_vector(data)


@pytest.mark.parametrize("head", [b"", b"\x00\x00", b"\xff\xff\xff\xff"])
def test_an_invalid_size_in_the_header_is_reported(head) -> None:
    with pytest.raises(Corrupt, match="not a valid size"):
        size_of_vector(head)


def test_a_truncated_bitmap_with_a_valid_checksum_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="bitmap"):
        decode_vector(framed(struct.pack(">i", 1581511376) + BitMap([1, 2]).serialize()[:-2]))


def test_another_kind_of_vector_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="magic number"):
        decode_vector(framed(b"abcdefgh"))

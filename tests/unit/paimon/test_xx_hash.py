"""XXH64 of many texts: known values, and a plain implementation beside it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lakelog.paimon.index.bloom_filter import hash_numbers, hash_texts

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261,
)  # fmt: skip


def turned(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & MASK


def mixed(lane: int, word: int) -> int:
    return turned((lane + word * P2) & MASK, 31) * P1 & MASK


def plain(data: bytes) -> int:
    """The hash as its description says it, byte string by byte string."""
    rest = data
    h = P5
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while len(rest) >= 32:
            words = [int.from_bytes(rest[i : i + 8], "little") for i in range(0, 32, 8)]
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words, strict=True)]
            rest = rest[32:]
        h = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            h = ((h ^ mixed(0, lane)) * P1 + P4) & MASK
    h = (h + len(data)) & MASK
    while len(rest) >= 8:
        h = (turned(h ^ mixed(0, int.from_bytes(rest[:8], "little")), 27) * P1 + P4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        h = (turned(h ^ int.from_bytes(rest[:4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        h = turned(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_known_hashes(text: str, value: int) -> None:
    assert hash_texts(pa.array([text])).tolist() == [value]


def test_texts_of_all_lengths_in_any_order_hash_as_one_by_one() -> None:
    chance = random.Random(7)
    texts = [chance.randbytes(length) for length in (*range(140), 1000, 33, 5, 0)]
    chance.shuffle(texts)
    column = pa.array([b"before", *texts, b"after"], pa.binary()).slice(1, len(texts))
    assert hash_texts(column).tolist() == [plain(text) for text in texts]


def test_a_column_without_rows_has_no_hashes() -> None:
    assert hash_texts(pa.array([], pa.string())).tolist() == []


def test_whole_numbers_are_mixed_with_their_sign() -> None:
    def one(key: int) -> int:
        def signed(value: int) -> int:
            return (value + (1 << 63) & MASK) - (1 << 63)

        key = signed(~key + (key << 21))
        key ^= key >> 24
        key = signed(key * 265)
        key ^= key >> 14
        key = signed(key * 21)
        key ^= key >> 28
        return (key + (key << 31)) & MASK

    numbers = [0, 1, -1, 42, 1 << 40, -(1 << 63), (1 << 63) - 1]
    assert hash_numbers(np.array(numbers, dtype=np.int64)).tolist() == [one(n) for n in numbers]

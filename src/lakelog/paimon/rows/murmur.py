"""Murmur3 (x86, 32 bits, seed 42) over rows of 4-byte words, many rows at a time (format sheet 5.1)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

SEED: Final = 42
MASK: Final = 0xFFFFFFFF
C1: Final = np.uint32(0xCC9E2D51)
C2: Final = np.uint32(0x1B873593)
ADD: Final = np.uint32(0xE6546B64)
M1: Final = np.uint32(0x85EBCA6B)
M2: Final = np.uint32(0xC2B2AE35)


def murmur_one(data: bytes) -> int:
    """The signed hash of bytes whose length is a multiple of 4."""
    h = SEED
    for at in range(0, len(data), 4):
        h = mix_one(h, int.from_bytes(data[at : at + 4], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * int(M1) & MASK
    h = (h ^ h >> 13) * int(M2) & MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def mix_one(h: int, word: int) -> int:
    """The state after one more word."""
    k = word * int(C1) & MASK
    k = (k << 15 | k >> 17) & MASK
    h ^= k * int(C2) & MASK
    h = (h << 13 | h >> 19) & MASK
    return (h * 5 + int(ADD)) & MASK


def mix(h: Words, word: Words, scratch: Words) -> None:
    """Takes one more word into the states ``h``; destroys ``word`` and ``scratch``. All have one length."""
    word *= C1
    np.right_shift(word, 17, out=scratch)
    word <<= 15
    word |= scratch
    word *= C2
    h ^= word
    np.right_shift(h, 19, out=scratch)
    h <<= 13
    h |= scratch
    h *= 5
    h += ADD


def mix_constant(h: Words, word: int, scratch: Words) -> None:
    """Takes the same word into all states; destroys ``scratch``."""
    k = word * int(C1) & MASK
    k = (k << 15 | k >> 17) & MASK
    h ^= np.uint32(k * int(C2) & MASK)
    np.right_shift(h, 19, out=scratch)
    h <<= 13
    h |= scratch
    h *= 5
    h += ADD


def finish(h: Words, length: Words | int, scratch: Words) -> npt.NDArray[np.int32]:
    """The signed hashes of states after their last word; ``length`` is in bytes. Destroys ``h`` and ``scratch``."""
    h ^= np.asarray(length, dtype=np.uint32)
    np.right_shift(h, 16, out=scratch)
    h ^= scratch
    h *= M1
    np.right_shift(h, 13, out=scratch)
    h ^= scratch
    h *= M2
    np.right_shift(h, 16, out=scratch)
    h ^= scratch
    return h.view(np.int32)

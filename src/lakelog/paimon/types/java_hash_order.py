"""The iteration order of a Java hash map, in which the format's tables show maps."""

from __future__ import annotations

from collections.abc import Iterable


def text_hash(text: str) -> int:
    """Java's hash of a text, as 32 bits."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = 31 * code + int.from_bytes(units[at : at + 2], "big") & 0xFFFFFFFF
    return code


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """The keys of a map, given in the order in which they were put into it."""
    names = list(keys)
    slots = 16
    while len(names) > slots * 3 // 4:
        slots *= 2
    return sorted(names, key=lambda key: slot_of(text_hash(key), slots))


def slot_of(code: int, slots: int) -> int:
    """The slot of a hash in a table of ``slots`` slots (a power of two)."""
    code &= 0xFFFFFFFF
    return (code ^ code >> 16) & slots - 1

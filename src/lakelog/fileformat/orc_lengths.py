"""Bounds of the memory that a stripe of an ORC file takes, from the lengths of its texts, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import Corrupt
from lakelog.fileformat.orc_footer import OrcFooter, Stream, Stripe, varint

_BATCH_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 256 << 20
"""The most that a dictionary or a row may take."""
_RATIO: Final = 64
"""A stripe that takes more bytes packed may take as many times of them."""
_LENGTH, _DICTIONARY, _DICTIONARY_V2 = 2, 1, 3
_OTHER_STREAMS: Final = frozenset((*range(1, 11), 100, 101))
"""All kinds of streams but that of the NULLs of a column, for which a reader takes unknown ones."""
_TEXTS: Final = (7, 8, 16, 17)
_LISTS, _MAP = (10, 11), 11
_STRUCT, _LAST_TYPE = 12, 20
_WIDE: Final = 16
_MOST_DEPTH: Final = 64
_CHECKED_BYTES: Final = 64 << 10
"""Size of the lengths of a column in a stripe beyond which they are trusted: to follow them would cost as a read."""
_SHORT: Final = 64
"""Heads below repeat one length a few times."""
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a value by the code of its width."""


@dataclass(frozen=True)
class _Cost:
    """Bytes of a row at most, and of all rows."""

    row: float
    total: float


@dataclass(frozen=True)
class _Lengths:
    """Bounds of the lengths in a stream."""

    longest: int = 0
    total: int = 0


def safe_rows(footer: OrcFooter, columns: Sequence[str]) -> int | None:
    """The rows of a file that may be read at a time; None if whole stripes may.

    Raises Corrupt for a file that no number of rows makes safe.
    """
    top = footer.types[0].parts if footer.types else ()
    wanted = [column for name, column in zip(footer.names, top, strict=False) if name in set(columns)]
    rows = [(_StripeCosts(footer, stripe).rows(wanted), stripe.rows) for stripe in footer.stripes]
    return None if all(safe >= there for safe, there in rows) else min(safe for safe, _ in rows)


class _StripeCosts:
    def __init__(self, footer: OrcFooter, stripe: Stripe) -> None:
        self._footer, self._stripe = footer, stripe
        streams, self._encodings = footer.streams(stripe)
        # the first one of a column counts, as for Arrow's reader
        self._lengths: dict[int, Stream] = {one.column: one for one in reversed(streams) if one.kind == _LENGTH}
        self._nulls = {one.column: one for one in reversed(streams) if one.kind not in _OTHER_STREAMS}
        self._dictionaries = 0.0

    def rows(self, columns: Sequence[int]) -> int:
        costs = [self._cost(column, self._stripe.rows, 0) for column in columns]
        row = sum(cost.row for cost in costs)
        most = max(_MOST_BYTES, _RATIO * self._stripe.data)
        for what, size in (("a row", row), ("the dictionaries", self._dictionaries)):
            if size > most:
                raise Corrupt(
                    f"{what} of a stripe takes up to {size:.0f} bytes, and the stripe has {self._stripe.data}"
                )
        if sum(cost.total for cost in costs) <= _MOST_BYTES:
            return self._stripe.rows
        return max(1, int(_BATCH_BYTES / max(1.0, row)))

    def _cost(self, column: int, values: int, depth: int) -> _Cost:
        if not 0 <= column < len(self._footer.types) or depth > _MOST_DEPTH:
            raise Corrupt(f"it has no type of the number {column}, or types too deep")
        kind = self._footer.types[column]
        encoding, size = self._encodings[column] if column < len(self._encodings) else (0, 0)
        if encoding > _DICTIONARY_V2 or kind.kind > _LAST_TYPE:
            raise Corrupt(
                f"column {column} has the encoding {encoding} and the type {kind.kind}, which no reader knows"
            )
        if kind.kind == _MAP and any(self._has_nulls(part) for part in kind.parts[:1]):
            raise Corrupt(f"the keys of the map of column {column} have NULLs")
        if kind.kind in _TEXTS and encoding in (_DICTIONARY, _DICTIONARY_V2):
            entries = self._of(column, encoding, size)
            self._dictionaries += entries.total + 8 * size
            return _Cost(entries.longest + 8, values * (entries.longest + 8))
        if kind.kind in _TEXTS:
            texts = self._of(column, encoding, values)
            return _Cost(texts.longest + 8, texts.total + 8 * values)
        lists = self._of(column, encoding, values) if kind.kind in _LISTS else _Lengths(1, values)
        parts = [self._cost(part, lists.total, depth + 1) for part in kind.parts]
        if kind.kind in _LISTS or kind.kind == _STRUCT:
            total = 8 * values + sum(part.total for part in parts)
            return _Cost(min(total, 8 + lists.longest * sum(part.row for part in parts)), total)
        return _Cost(_WIDE + sum(part.row for part in parts), _WIDE * values + sum(part.total for part in parts))

    def _has_nulls(self, column: int) -> bool:
        stream = self._nulls.get(column)
        return stream is not None and not _are_ones(self._footer.unpacked(stream.offset, stream.length))

    def _of(self, column: int, encoding: int, values: int) -> _Lengths:
        stream = self._lengths.get(column)
        if stream is None or stream.length > _CHECKED_BYTES:
            return _Lengths()
        data = self._footer.unpacked(stream.offset, stream.length)
        longest = total = 0
        try:
            for count, length in _runs(data) if encoding > 1 else _old_runs(data):
                count = min(count, values)
                values -= count
                longest, total = max(longest, length), total + count * length
                if not values:
                    break
        except IndexError:
            raise Corrupt(f"the lengths of column {column} are cut") from None
        return _Lengths(longest, total)


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    """The runs of a stream of the second version of lengths: how many, and a bound of them."""
    at = 0
    while at < len(data):
        head = data[at]
        if head < _SHORT:
            width = (head >> 3) + 1
            yield (head & 7) + 3, data[at + 1] if width == 1 else int.from_bytes(data[at + 1 : at + 1 + width], "big")
            at += 1 + width
            continue
        kind, code = head >> 6, head >> 1 & 31
        count, bits = ((head & 1) << 8 | data[at + 1]) + 1, _WIDTHS[code]
        if kind == 1:
            yield count, (1 << bits) - 1
            at += 2 + (count * bits + 7) // 8
        elif kind == 2:
            third, fourth = data[at + 2], data[at + 3]
            base_bytes, patch_bits = (third >> 5) + 1, _WIDTHS[third & 31]
            patches, gap_bits = fourth & 31, (fourth >> 5) + 1
            base = int.from_bytes(data[at + 4 : at + 4 + base_bytes], "big")
            patched = next((width for width in _WIDTHS if width >= gap_bits + patch_bits), 64)
            yield min(patches, count), base + (1 << bits + patch_bits)
            yield count - min(patches, count), base + (1 << bits)
            at += 4 + base_bytes + (count * bits + 7) // 8 + (patches * patched + 7) // 8
        else:
            base, at = varint(data, at + 2)
            coded, at = varint(data, at)
            step = coded >> 1 ^ -(coded & 1)
            bits = _WIDTHS[code] if code else 0
            more = max(0, count - 2)
            size = (more * bits + 7) // 8
            if step < 0 and count > 1:
                _check_end(base + step + (-_sum(data[at : at + size], bits, more) if bits else more * step))
            yield count, base + (step + more * ((1 << bits) - 1 if bits else step) if step >= 0 else 0)
            at += size


def _are_ones(data: bytes) -> bool:
    """True if a stream of bits, in runs of bytes, has ones only; its last byte may end with zeros."""
    at, last = 0, 0xFF
    while at < len(data):
        head = data[at]
        run = data[at + 1 : at + 2] * 2 if head < 128 else data[at + 1 : at + 257 - head]
        if last != 0xFF or not run or run[:-1].strip(b"\xff"):
            return False
        at, last = at + (2 if head < 128 else 257 - head), run[-1]
    return last in (0xFF << zeros & 0xFF for zeros in range(8))


def _check_end(length: int) -> None:
    """Lengths that decrease end at 0 at least: readers take a negative one for more than 2⁶³."""
    if length < 0:
        raise Corrupt(f"a length in it is {length}")


def _sum(packed: bytes, bits: int, count: int) -> int:
    """The sum of ``count`` numbers of a number of bits each. Raises IndexError."""
    if 8 * len(packed) < bits * count:
        raise IndexError
    number = int.from_bytes(packed, "big") >> (8 * len(packed) - bits * count)
    return sum(number >> bits * at & (1 << bits) - 1 for at in range(count))


def _old_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """The runs of a stream of the first version."""
    at = 0
    while at < len(data):
        head = data[at]
        if head < 128:
            step = int.from_bytes(data[at + 1 : at + 2], "big", signed=True)
            base, at = varint(data, at + 2)
            _check_end(base + step * (head + 2))
            yield head + 3, max(base, base + step * (head + 2))
            continue
        at += 1
        for _ in range(256 - head):
            length, at = varint(data, at)
            yield 1, length

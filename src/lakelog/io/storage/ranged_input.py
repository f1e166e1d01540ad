"""A file that is read by ranges over a network, with few and large requests."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import ClassVar


class RangedInput(io.RawIOBase):
    """A readable, seekable file over ``fetch(start, length)``.

    ``end`` are the last bytes of the file, fetched when it was opened, so that the footer of a data file, or a whole
    small file, needs no further request. Not thread-safe (Arrow's wrapper has a lock).
    """

    TAIL_BYTES: ClassVar[int] = 256 << 10
    """Bytes of the end to fetch with the size, because a request costs more time than these bytes."""

    AHEAD_BYTES: ClassVar[int] = 1 << 20
    """Minimum range of a request in the middle of a file."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, end: bytes) -> None:
        super().__init__()
        self._fetch, self._size, self._position = fetch, size, 0
        self._end_start, self._end = size - len(end), end
        self._held_start, self._held = 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._bytes(self._position, length)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def _bytes(self, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        if start >= self._end_start:
            at = start - self._end_start
            return self._end[at : at + length]
        if start + length > self._end_start:
            first = self._bytes(start, self._end_start - start)
            return first + self._end[: length - len(first)]
        held_end = self._held_start + len(self._held)
        if not (self._held_start <= start and start + length <= held_end):
            count = min(max(length, self.AHEAD_BYTES), self._end_start - start)
            self._held_start, self._held = start, self._fetch(start, count)
        at = start - self._held_start
        return self._held[at : at + length]

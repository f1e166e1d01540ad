"""Frames of Zstandard as other producers write them: with their size, without, several, with a magic number to skip."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.logstore.record_batch.compression import ZSTD, TooLarge, decompress

SIZES = [1, 255, 256, 257, 1024, 65_535, 65_536, 66_000, 300_000]


def plain(size: int) -> bytes:
    return (b"%d," * 9 % tuple(range(9)) * (size // 9 + 1))[:size]


def sized(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def streamed(data: bytes) -> bytes:
    """A frame without its size, as a stream writes it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_any_form_is_read(size: int) -> None:
    data = plain(size)
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
    assert decompress(sized(data), ZSTD) == data
    assert decompress(streamed(data), ZSTD) == data
    assert decompress(sized(data) + sized(data[:10]), ZSTD) == data + data[:10]
    assert decompress(skipped + sized(data), ZSTD) == data


def test_a_size_that_is_not_true_allocates_little() -> None:
    packed = bytearray(sized(plain(300_000)))
    packed[5:9] = (1 << 31).to_bytes(4, "little")
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge):
        decompress(bytes(packed), ZSTD)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("length", [0, 3, 5, 12])
def test_a_frame_that_is_cut_is_damage(length: int) -> None:
    with pytest.raises(Corrupt):
        decompress(sized(plain(3_000))[:length], ZSTD)

"""No data file ends the process that reads it, or raises what is no error of ours, or takes much memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_files import FILES, attack, attack_vectors

from depth import DEPTH
from lakelog.errors import Corrupt
from lakelog.fileformat.orc import OrcFormat
from lakelog.fileformat.orc_lengths import _are_ones, _old_runs, _runs
from lakelog.io.storage.local import LocalFileIO


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_data_file_is_rows_or_corrupt(name: str) -> None:
    found = attack(name, DEPTH.cases(2_000), DEPTH.seed)
    assert not found.wrong, "\n".join(found.wrong[:5])
    assert found.peak < 512
    assert found.outcomes["done"]


def test_an_encoding_that_no_reader_knows_is_corrupt(tmp_path: Path) -> None:
    """A reader takes it for the first one, and so its lengths for others."""
    path = tmp_path / "plain.orc"
    FILES["plain.orc"](str(path))
    whole = path.read_bytes()
    encodings = bytes((0x12, 4, 8, 2, 16, 0)) * 4  # of columns 1 to 4 in the footer of the stripe
    assert whole.count(encodings) == 1
    path.write_bytes(whole.replace(encodings, encodings[:-3] + bytes((127, 16, 0))))
    with pytest.raises(Corrupt, match="has the encoding 127"):
        list(OrcFormat().read(LocalFileIO(), str(path)))


def test_a_map_with_null_keys_is_corrupt(tmp_path: Path) -> None:
    """Arrow ends the process for it."""
    path = tmp_path / "plain.orc"
    FILES["plain.orc"](str(path))
    whole = path.read_bytes()
    index = bytes((0x0A, 6, 8, 6, 16, 7, 24))  # the index of column 7, the keys, in the footer of the stripe
    assert whole.count(index) == 1
    path.write_bytes(whole.replace(index, bytes((0x0A, 6, 8, 0, 16, 7, 24))))
    with pytest.raises(Corrupt, match="have NULLs"):
        list(OrcFormat().read(LocalFileIO(), str(path)))


@pytest.mark.parametrize(
    ("bits", "are_ones"),
    [
        (bytes((7, 0xFF)), True),
        (bytes((7, 0xFF, 0xFF, 0xE0)), True),
        (bytes((0xFE, 0xFF, 0x80)), True),
        (bytes((7, 0xFE)), False),
        (bytes((0xFE, 0x80, 0xFF)), False),
        (bytes((0xFF, 0x80, 0xFF, 0xFF)), False),
        (bytes((0xFF, 0x7F)), False),
    ],
)
def test_ones_of_a_stream_of_bits_are_seen(bits: bytes, are_ones: bool) -> None:
    assert _are_ones(bits) == are_ones


@pytest.mark.parametrize(
    "lengths",
    [
        bytes((0xC0, 100, 2, 127)),  # a run of 101: 2, then 64 less each
        bytes((0xC2, 3, 4, 1, 0b11100000)),  # 4, 3, 0, -2
        bytes((97, 0xFF, 5)),  # the first version: 100 of them, 1 less each, from 5
    ],
)
def test_lengths_that_fall_below_zero_are_corrupt(lengths: bytes) -> None:
    with pytest.raises(Corrupt, match="a length in it is -"):
        list(_runs(lengths) if lengths[0] > 127 else _old_runs(lengths))


def test_lengths_that_fall_to_zero_are_right() -> None:
    """Of one step (3, 2, 1, 0), of differences (6, 3, 1, 0), and of the first version."""
    assert list(_runs(bytes((0xC0, 3, 3, 1)))) == [(4, 3)]
    assert list(_runs(bytes((0xC2, 3, 6, 5, 0b10010000)))) == [(4, 6)]
    assert list(_old_runs(bytes((1, 0xFF, 3)))) == [(4, 3)]


def test_a_hostile_deletion_vector_is_positions_or_corrupt() -> None:
    found = attack_vectors(DEPTH.cases(5_000), DEPTH.seed)
    assert not found.wrong, "\n".join(found.wrong[:5])

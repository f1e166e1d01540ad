"""The container of file indexes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakelog.errors import Corrupt
from lakelog.paimon.index.file_index import encode_file_index, read_file_index


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda start, length: data[start : start + length]


def test_indexes_are_found_by_column_and_kind() -> None:
    data = encode_file_index({"id": {"bloom-filter": b"12345"}, "naïve": {"bloom-filter": b"", "other": b"xyz"}})
    found = read_file_index(reader(data))
    parts = {
        (column, kind): data[place.start : (place.start or 0) + place.length]
        for column, kinds in found.items()
        for kind, place in kinds.items()
    }
    assert parts == {("id", "bloom-filter"): b"12345", ("naïve", "bloom-filter"): b"", ("naïve", "other"): b"xyz"}
    assert data.endswith(b"12345xyz")


def test_a_column_without_any_value_has_no_place() -> None:
    data = bytearray(encode_file_index({"id": {"bloom-filter": b"12345"}}))
    data[-17:-13] = (-1).to_bytes(4, "big", signed=True)
    assert read_file_index(reader(bytes(data)))["id"]["bloom-filter"].start is None


@pytest.mark.parametrize("damage", [slice(0, 8), slice(8, 12), slice(20, None)])
def test_damaged_indexes_are_corrupt(damage: slice) -> None:
    data = bytearray(encode_file_index({"id": {"bloom-filter": b"12345"}}))
    data[damage] = b"\xff" * len(data[damage]) if damage.stop else b""
    with pytest.raises(Corrupt, match="file index"):
        read_file_index(reader(bytes(data)))

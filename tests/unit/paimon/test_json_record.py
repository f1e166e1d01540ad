"""Records of metadata files: what a file has, and what is wrong with one that is something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lakelog.errors import Corrupt
from lakelog.paimon.types.json_record import OPTIONAL, JsonRecord, stored_as


@dataclass(frozen=True)
class Inner(JsonRecord, of_paimon=True):
    row_count: int
    max_value: str | None = None


@dataclass(frozen=True)
class Outer(JsonRecord):
    name: str
    time_ms: int = field(metadata=stored_as("time"))
    offsets: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[Inner, ...] = field(default=(), metadata=OPTIONAL)
    by_name: Mapping[str, Inner] = field(default_factory=dict, metadata=OPTIONAL)
    end: int | None = None


SMALL = Outer("a", 5)
LARGE = Outer("a", 5, {10: 1, 9: 2}, (Inner(1), Inner(2, "z")), {"b": Inner(3)}, 7)


def test_a_record_is_stored_by_its_keys_without_optional_defaults() -> None:
    assert SMALL.to_json() == b'{"name":"a","time":5,"offsets":{},"end":null}'
    assert LARGE.to_values() == {
        "name": "a",
        "time": 5,
        "offsets": {"9": 2, "10": 1},
        "parts": [{"rowCount": 1}, {"rowCount": 2, "maxValue": "z"}],
        "by_name": {"b": {"rowCount": 3}},
        "end": 7,
    }
    assert list(LARGE.to_values()["offsets"]) == ["9", "10"]


@pytest.mark.parametrize("record", [SMALL, LARGE], ids=["small", "large"])
def test_a_record_is_read_as_it_was_stored(record: Outer) -> None:
    assert Outer.from_json(record.to_json()) == record


def test_null_is_a_missing_key_and_a_key_of_a_later_version_is_ignored() -> None:
    assert Outer.from_json(b'{"name":"a","time":5,"offsets":null,"color":"red"}') == SMALL


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b'{"name":"a"}', "not a Outer: KeyError: 'time'"),
        (b'{"name":null,"time":5}', "'name'"),
        (b'{"name":"a","time":"5"}', "field 'time_ms' of a Outer is '5'"),
        (b'{"name":"a","time":5,"offsets":{"x":1}}', "not a Outer: ValueError"),
        (b'{"name":"a","time":5,"parts":[{}]}', "not a Inner: KeyError: 'rowCount'"),
        (b'{"name":"a","time":5,"parts":5}', "not a Outer: TypeError"),
        (b"[]", "not a Outer"),
        (b"{", "not a Outer"),
    ],
)
def test_bytes_of_something_else_are_corrupt(data: bytes, fault: str) -> None:
    with pytest.raises(Corrupt, match=fault):
        Outer.from_json(data)

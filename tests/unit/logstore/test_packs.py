"""Packs and the offsets that number them: nothing is lost in one, and no two records have one offset."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.logstore import client_properties
from lakelog.logstore.base import LARGEST_OFFSET, RECORDS_SCHEMA, Records
from lakelog.logstore.pulsar import PULSAR
from lakelog.logstore.pulsar.packs import (
    PACK_KEY,
    Entry,
    Pack,
    entries_between,
    entry_of,
    pack_of,
    packed,
    single,
    unpacked,
)

LAST = Entry(2**27 - 1, 2**22 - 1)


def records(values: list[bytes | None], headers: bytes | list[bytes] = b"1|d|w|0|a", changes: int = 1) -> Records:
    keys = [None if v is None else b"k" + v[:20] for v in values]
    return Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), headers, changes)


def read_back(given: Records, ledger: int = 3) -> list[Pack]:
    return [
        pack_of(Entry(ledger, number), -1, 7, message.properties, None, message.content)
        for number, message in enumerate(packed(given))
    ]


def whole(packs: list[Pack]) -> pa.Table:
    return unpacked([(pack, 0, pack.count) for pack in packs])


def test_offsets_and_entries_are_each_other_s_reverse_and_in_the_same_order() -> None:
    entries = [Entry(0, 0), Entry(0, 1), Entry(0, 2**22 - 1), Entry(1, 0), Entry(2**27 - 1, 0), LAST]
    offsets = [entry.offset(index) for entry in entries for index in (0, 1, 8191)]
    assert offsets == sorted(set(offsets))
    assert [entry_of(offset) for offset in offsets] == [entry for entry in entries for _ in range(3)]
    assert offsets[-1] == LARGEST_OFFSET


@pytest.mark.parametrize(
    ("entry", "index", "told"),
    [
        (Entry(2**27, 0), 0, "recreate the table"),
        (Entry(-1, 0), 0, "recreate the table"),
        (Entry(0, 2**22), 0, "managedLedgerMaxEntriesPerLedger"),
        (Entry(0, -1), 0, "managedLedgerMaxEntriesPerLedger"),
        (Entry(0, 0), 8192, "8192 records"),
    ],
)
def test_what_an_offset_cannot_say_is_an_error(entry: Entry, index: int, told: str) -> None:
    with pytest.raises(UnsupportedFeature, match=told):
        entry.offset(index)


def test_entries_between_two_ends_are_known_inside_a_ledger_only() -> None:
    assert entries_between(Entry(3, 4).offset(), Entry(3, 9).offset()) == 5
    assert entries_between(Entry(3, 9).offset(), Entry(3, 4).offset()) == -5
    assert entries_between(Entry(3, 4).offset(), Entry(4, 0).offset()) is None
    assert entries_between(Entry(3, 4).offset(1), Entry(3, 9).offset()) is None


def test_records_come_back_as_they_were() -> None:
    values: list[bytes | None] = [b"", None, b"\x00\xff", *(b"%d" % n for n in range(10_000)), b"x" * 600_000]
    packs = read_back(records(values))
    assert len(packs) > 3
    found = whole(packs)
    assert found.schema == RECORDS_SCHEMA
    assert found.column("value").to_pylist() == values
    assert found.column("key").to_pylist() == records(values).keys.to_pylist()
    offsets = found.column("offset").to_pylist()
    assert offsets == sorted(set(offsets))
    assert set(found.column("header").to_pylist()) == {b"1|d|w|0|a"}
    assert set(found.column("timestamp_ms").to_pylist()) == {7}


def test_headers_of_their_own_travel_too() -> None:
    found = whole(read_back(records([b"a", b"b"], [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"])))
    assert found.column("header").to_pylist() == [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"]


def test_records_of_many_changes_leave_room_for_them() -> None:
    packs = read_back(records([b"a", b"b", b"c"], changes=4096))
    assert [pack.count for pack in packs] == [2, 1]
    offsets = whole(packs).column("offset").to_numpy()
    assert np.diff(offsets).min() >= 4096
    alone = read_back(records([b"a", b"b"], changes=8192))
    assert [pack.count for pack in alone] == [1, 1]


def test_a_part_of_a_pack_is_found_by_offset() -> None:
    (pack,) = read_back(records([b"a", b"b", b"c"], changes=2))
    assert [pack.before(pack.first + n) for n in (-5, 0, 1, 2, 3, 4, 5, 6)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert unpacked([(pack, 1, 2)]).column("value").to_pylist() == [b"b"]
    assert unpacked([]).schema == RECORDS_SCHEMA


def test_a_message_that_is_no_pack_is_one_record() -> None:
    plain = pack_of(Entry(0, 1), 3, 5, {"other": "x"}, b"key", b"value")
    gone = pack_of(Entry(0, 1), 4, 5, {"lakelog": "1|d|w|0|a"}, None, None)
    found = whole([plain, gone]).to_pylist()
    first = Entry(0, 1).offset(3)
    assert found == [
        {"offset": first, "timestamp_ms": 5, "key": b"key", "value": b"value", "header": None},
        {"offset": first + 1, "timestamp_ms": 5, "key": None, "value": None, "header": b"1|d|w|0|a"},
    ]


@pytest.mark.parametrize("told", ["2|1|1", "1|x|1", "1|1", "", "1|1|0"])
def test_a_pack_of_another_version_is_corrupt(told: str) -> None:
    with pytest.raises(Corrupt, match="upgrade lakelog"):
        pack_of(Entry(0, 0), 0, 0, {PACK_KEY: told}, None, b"")


def test_a_damaged_pack_is_corrupt() -> None:
    (pack,) = read_back(records([b"a", b"b"]))
    assert pack.content is not None
    for bad in (replace(pack, content=pack.content[:40]), replace(pack, content=b""), replace(pack, count=3)):
        with pytest.raises(Corrupt, match=r"log message at offset \d+"):
            bad.columns()


def test_every_documented_property_may_be_an_option_of_a_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "guide" / "log-systems.md"
    documented = set(re.findall(r"`(pulsar\.[a-zA-Z.]+)`", page.read_text()))
    assert documented == set(PULSAR.properties) <= set(client_properties())


def test_a_record_without_a_pack_has_its_own_message() -> None:
    keys = pa.array([b'{"id":1}', None, b"\xff", b"k"], pa.large_binary())
    values = pa.array([b"v", None, b"v", b""], pa.large_binary())
    messages = list(single(Records(keys, values, b"1|d|w|0|a")))
    assert [(m.content, m.key) for m in messages[:2]] == [(b"v", '{"id":1}'), (None, None)]
    # a message cannot have a key that is no text, or an empty value beside a null one
    assert [PACK_KEY in m.properties for m in messages] == [False, False, True, True]

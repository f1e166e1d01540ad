"""Single rules of healing; all of them together under ``tests/property/test_protocol_simulation.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import Fenced
from lakelog.logstore.base import RECORDS_SCHEMA
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import CORRECTION, DATA, encode_header
from lakelog.logstore.protocol.healing_plan import Correction, Counted, Healing

FORM = log_format("debezium-json")
GOOD, BAD = "00000000000000aa", "00000000000000bb"
Row = tuple[bytes | None, bytes | None, bytes]


def value(before: int | None, after: int | None, key: int = 1) -> bytes:
    images = [None if v is None else {"id": key, "v": v} for v in (before, after)]
    op = "d" if after is None else "c" if before is None else "u"
    return json.dumps({"before": images[0], "after": images[1], "op": op}, separators=(",", ":")).encode()


def data(attempt: str, before: int | None, after: int | None, key: int = 1, epoch: int = 0, writer: str = "w") -> Row:
    return b'{"id":%d}' % key, value(before, after, key), encode_header(DATA, writer, epoch, attempt)


def correction(ref: int, sign: int, before: int | None, after: int | None, key: int = 1) -> Row:
    return b'{"id":%d}' % key, value(before, after, key), encode_header(CORRECTION, "w", 0, BAD, ref, sign)


def region(rows: Sequence[Row], since: int = 0) -> pa.Table:
    keys, values, headers = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    columns: list[list[Any]] = [list(range(since, since + len(rows))), [0] * len(rows), keys, values, headers]
    arrays = [pa.array(column, f.type) for column, f in zip(columns, RECORDS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RECORDS_SCHEMA)


def healing(mode: str = "all", keyed: bool = True, files: Mapping[int, int] | None = None) -> Healing:
    def lookup(keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        rows = {key: (files or {}).get(json.loads(key)["id"]) for key in keys}
        return {k: None if v is None else value(None, v, json.loads(k)["id"]) for k, v in rows.items()}

    return Healing("w", {0: frozenset({GOOD})}, mode, keyed, FORM, lookup)


def plan(rows: Sequence[Row], **more: Any) -> list[tuple[int, int, dict[str, Any]]]:
    return [(c.ref, c.sign, json.loads(c.value)) for c in healing(**more).plan(region(rows))]


def image(v: int) -> dict[str, int]:
    return {"id": 1, "v": v}


def test_accepted_rows_need_nothing() -> None:
    assert plan([data(GOOD, None, 1), data(GOOD, 1, 2), data(GOOD, 2, None)]) == []
    assert plan([]) == []


def test_refused_rows_are_taken_back_newest_first() -> None:
    assert plan([data(BAD, None, 1), data(BAD, 1, 2)]) == [
        (1, -1, {"before": image(2), "after": image(1), "op": "u"}),
        (0, -1, {"before": image(1), "after": None, "op": "d"}),
    ]


def test_an_existing_correction_is_not_repeated() -> None:
    assert plan([data(BAD, None, 1), correction(0, -1, 1, None)]) == []


def test_a_correction_too_many_is_taken_back_itself() -> None:
    rows = [data(BAD, None, 1), correction(0, -1, 1, None), correction(0, -1, 1, None)]
    assert plan(rows) == [(0, 1, {"before": None, "after": image(1), "op": "c"})]


def test_a_correction_of_an_accepted_row_is_taken_back() -> None:
    assert plan([data(GOOD, None, 1), correction(0, -1, 1, None)], keyed=False) == [
        (0, 1, {"before": None, "after": image(1), "op": "c"})
    ]


def test_a_late_correction_of_a_row_before_the_region_is_taken_back_by_its_own_value() -> None:
    late = region([correction(3, -1, 1, None)], since=10)
    (found,) = healing(keyed=False).plan(late)
    assert (found.ref, found.sign, json.loads(found.value)["op"]) == (3, 1, "c")


def test_a_correction_of_a_row_that_the_log_no_longer_holds_is_not_judged() -> None:
    late = region([correction(3, -1, 1, None)], since=10)
    assert healing(keyed=False).plan(late, expired=range(2, 10)) == []


def test_a_large_difference_is_made_up_for_one_record_a_round() -> None:
    rows = [data(BAD, None, 1), *[correction(0, -1, 1, None)] * 4]
    assert len(plan(rows)) == 1


def test_a_key_ends_with_its_last_decided_row() -> None:
    rows = [data(BAD, None, 7), data(GOOD, None, 1), correction(0, -1, 7, None)]
    ((_, sign, change),) = plan(rows, files={1: 1})
    assert (sign, change["after"], change["before"]) == (0, image(1), image(1))
    ((_, sign, change),) = plan(rows, files={1: 9})  # of a writer that decided later
    assert (sign, change["after"], change["before"]) == (0, image(9), image(9))


def test_a_key_without_an_accepted_row_ends_as_it_is_in_the_files() -> None:
    rows = [data(BAD, 5, 7), correction(0, -1, 7, 5)]
    assert plan(rows, files={1: 5}) == []
    ((_, sign, change),) = plan(rows, files={1: 6})
    assert (sign, change["after"]) == (0, image(6))
    insert, delete = plan(rows, files={})
    assert (insert[2]["op"], delete[2]["op"]) == ("c", "d")


def test_half_a_pair_is_completed() -> None:
    rows = [data(BAD, 5, 7), correction(0, -1, 7, 5), correction(0, 0, None, 5)]
    assert [c for _, _, c in plan(rows, files={})] == [{"before": image(5), "after": None, "op": "d"}]


def test_untouched_keys_are_not_looked_up() -> None:
    def lookup(keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        raise AssertionError(keys)

    quiet = replace(healing(), lookup=lookup)
    assert quiet.plan(region([data(GOOD, None, 1), data(GOOD, None, 2, key=2)])) == []


def test_keys_of_another_writer_alone_are_left_to_it() -> None:
    assert plan([data(BAD, None, 1, writer="other"), data(GOOD, None, 2, key=2)]) == []


def test_the_row_of_another_writer_that_is_still_open_is_left_to_it() -> None:
    rows = region([data(BAD, None, 1), correction(0, -1, 1, None), data(BAD, None, 3, writer="other")])
    assert replace(healing(), is_open=lambda header: header.writer == "other").plan(rows) == []


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_the_last_row_of_a_key_is_judged_although_another_writer_wrote_it(mode: str) -> None:
    rows = [data(GOOD, None, 1), data(BAD, None, 3, writer="other")]
    assert plan(rows, mode=mode, files={1: 3}) == []
    (found,) = plan(rows, mode=mode, files={1: 1})
    assert (found[0], found[1], found[2]["after"]) == (1, 0, image(1))


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_another_writers_correction_after_an_accepted_row_is_checked(mode: str) -> None:
    healed = b'{"id":1}', value(None, 5), encode_header(CORRECTION, "healer", 0, BAD, 0, 0)
    assert plan([data(GOOD, None, 1), healed], mode=mode, files={1: 5}) == []
    (found,) = plan([data(GOOD, None, 1), healed], mode=mode, files={1: 1})
    assert (found[1], found[2]["after"]) == (0, image(1))


def test_an_upsert_log_gets_only_the_right_last_state() -> None:
    rows = [data(BAD, None, 7), data(GOOD, None, 1), data(BAD, None, 8)]
    assert plan(rows, mode="upsert", files={1: 1}) == [(2, 0, {"before": None, "after": image(1), "op": "c"})]
    assert plan(rows[:2], mode="upsert", files={1: 1}) == []
    assert plan([data(BAD, None, 7)], mode="upsert") == [(0, 0, {"before": image(7), "after": None, "op": "d"})]
    assert plan([data(BAD, None, 7)], mode="upsert", files={1: 4}) == [
        (0, 0, {"before": None, "after": image(4), "op": "c"})
    ]


def test_corrections_say_whose_row_they_correct() -> None:
    (found,) = healing(keyed=False).plan(region([data(BAD, None, 1)]))
    assert isinstance(found, Correction)
    assert (found.epoch, found.attempt, found.key) == (0, BAD, b'{"id":1}')


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_driver_of_the_past_is_fenced_off(mode: str) -> None:
    with pytest.raises(Fenced, match="epoch 1"):
        plan([data(GOOD, None, 1), data("00000000000000cc", None, 2, epoch=1)], mode=mode)
    assert plan([data(GOOD, None, 1), data("00000000000000cc", None, 2, key=2, epoch=1, writer="other")]) == []


def test_a_correction_that_was_judged_with_a_record_before_the_region_stays() -> None:
    """A seal healed up to offset 9 while epoch 1 was under way, so that the next region starts at its first row, 7."""
    rows = [data("new", None, 5, epoch=1), correction(3, -1, 4, None, key=2)]
    late = replace(healing(keyed=False), accepted={1: frozenset({"new"})})
    judged = replace(late, counted=Counted(9, 0))
    assert judged.plan(region(rows, 7), range(7, 7)) == []
    assert [(c.ref, c.sign) for c in late.plan(region(rows, 7), range(7, 7))] == [(3, 1)]
    again = [*rows, correction(3, -1, 4, None, key=2)]  # of a healer that was paused
    assert [(c.ref, c.sign) for c in judged.plan(region(again, 7), range(7, 7))] == [(3, 1)]


def test_an_assertion_that_was_judged_with_one_before_the_region_stays() -> None:
    rows = [data("new", None, 5, epoch=1), correction(3, 0, None, 4, key=2)]
    judged = replace(
        healing(), accepted={1: frozenset({"new"})}, lookup=lambda keys: {k: value(None, 4, 2) for k in keys}
    )
    assert replace(judged, counted=Counted(9, 0)).plan(region(rows, 7), range(7, 7)) == []
    assert judged.plan(region(rows, 7), range(7, 7)) != []

"""What a task adds to the order of its rows: numbers above the files, which do not run away with a log's offsets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.table.runs.runs import Numbering

PLACE = (b"", 0)


def numbering(highest: int, emits_log: bool = True) -> Numbering:
    table: Any = SimpleNamespace(emits_log=emits_log)
    return Numbering(table, {PLACE: highest})


def test_offsets_that_are_above_the_files_are_the_numbers() -> None:
    assert numbering(10).delta(PLACE, 11, ()) == 0
    assert numbering(2**50).delta(PLACE, 2**50 + 1, ()) == 0


def test_the_tasks_of_an_epoch_compute_the_same_delta() -> None:
    for emits_log, orders in ((True, (2**50 + 7, 2**50 + 900_000)), (False, (0, 5000 << 26))):
        deltas = {numbering(2**51, emits_log).delta(PLACE, order, ()) for order in orders}
        assert len(deltas) == 1


@pytest.mark.parametrize("offset", [5, 2**40, 2**61])
def test_numbers_do_not_grow_by_an_offset_again_and_again(offset: int) -> None:
    highest = 2**61 + 10
    for _ in range(1000):
        lowest = numbering(highest).delta(PLACE, offset, ()) + offset
        assert highest < lowest <= highest + 2**36
        highest = lowest
    assert highest < 2**62

"""The judge of histories judges right: compared with a search through all orders."""

from __future__ import annotations

import itertools
import random

import pytest

from depth import Depth
from register_history import FAILED, OK, UNKNOWN, History, Read, Value, Write


def random_history(dice: random.Random) -> History:
    """A register that a few clients write and read, with an answer or two that may be wrong."""
    history, now, value = History(), 0, None
    running: list[Write] = []
    for number in range(dice.randint(2, 5)):
        now += dice.randint(1, 3)
        write = Write(f"w{number}", now, [{0: dice.choice([None, number])}])
        write.outcome = dice.choice([OK, OK, OK, UNKNOWN])
        if write.outcome == OK:
            write.responded = now + dice.randint(1, 9)
        history.writes.append(write)
        running.append(write)
        for _ in range(dice.randint(0, 2)):
            now += 1
            if dice.random() < 0.6:
                value = dice.choice(running).tries[0][0]
            history.reads.append(Read("r", 0, value, now, now + dice.randint(1, 4)))
    return history


def has_order(history: History) -> bool:
    """Tries all orders of all subsets of what may have happened."""
    known: list[tuple[Value, float, float, bool]] = [
        (w.tries[0][0], w.invoked, w.responded, False) for w in history.writes if w.outcome == OK
    ]
    known += [(r.value, r.invoked, r.responded, True) for r in history.reads]
    doubtful = [(w.tries[0][0], w.invoked, w.responded, False) for w in history.writes if w.outcome == UNKNOWN]
    for count in range(len(doubtful) + 1):
        for chosen in itertools.combinations(doubtful, count):
            if _places(known + list(chosen), None):
                return True
    return False


def _places(left: list[tuple[Value, float, float, bool]], value: Value) -> bool:
    if not left:
        return True
    first = min(responded for _, _, responded, _ in left)
    for op in left:
        if op[1] < first:
            rest = [other for other in left if other is not op]
            if (op[0] == value or not op[3]) and _places(rest, op[0]):
                return True
    return False


def test_the_judge_finds_an_order_where_there_is_one_and_only_there(depth: Depth) -> None:
    found = {True: 0, False: 0}
    for seed in depth.seeds(3_000):
        history = random_history(random.Random(seed))
        expected = has_order(history)
        assert (not history.wrong()) == expected, (seed, history.wrong(), history.writes, history.reads)
        found[expected] += 1
    assert min(found.values()) > depth.cases(300), "both answers are tried"


@pytest.mark.parametrize("outcome", [FAILED, UNKNOWN])
def test_what_a_reader_of_changes_has_seen_was_written(outcome: str) -> None:
    history = History()
    history.writes = [Write("w", 1, [{0: 7, 1: None}], outcome=outcome), Write("v", 2, [{1: 8}], 3, OK)]
    history.sight(0, 7, by=5)
    history.reads = [Read("r", 1, None, 6, 7)]
    assert bool(history.wrong()) == (outcome == FAILED)


def test_a_write_of_two_keys_is_seen_whole() -> None:
    history = History()
    history.writes = [Write("v", 1, [{1: 8}], 2, OK), Write("w", 3, [{0: 7, 1: None}])]
    history.reads = [Read("r", 0, 7, 4, 5), Read("r", 1, 8, 6, 7)]
    assert "key 1 has no order" in history.wrong()[0]

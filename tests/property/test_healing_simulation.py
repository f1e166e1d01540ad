"""One writer, crashes, zombies and double healers in a seeded model: the log must end equal to what was decided.

The real header, format and healing code runs on a plain list as the log. Each generator is a process; each ``yield``
is a point at which the scheduler may kill it, pause it, or let others run. Replay one schedule with ``simulate(seed,
mode, keyed)``.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.errors import Fenced
from lakelog.logstore.base import RECORDS_SCHEMA
from lakelog.logstore.formats import log_format
from lakelog.logstore.header import CORRECTION, DATA, encode_header
from lakelog.logstore.healing import Correction, Healing

FORM = log_format("debezium-json")
Row = tuple[int, int | None, int | None]
"""(key, value before, value after)."""


class Model:
    """The log of one bucket, the decisions, and the rows that the decided epochs put into the files."""

    def __init__(self, seed: int, mode: str, keyed: bool) -> None:
        self.random = random.Random(seed)
        self.mode, self.keyed = mode, keyed
        self.log: list[tuple[bytes | None, bytes | None, bytes]] = []
        self.decided: dict[int, tuple[str, list[Row]]] = {}
        self.files: Counter[tuple[int, int]] = Counter()
        self.state: dict[int, int] = {}
        self.verified = 0
        self.attempts = 0

    def append(self, key: int | None, value: bytes | None, header: bytes) -> None:
        encoded = json.dumps({"id": key}, separators=(",", ":")).encode() if self.keyed and key is not None else None
        self.log.append((encoded, value, header))

    def rows(self, epoch: int) -> list[Row]:
        """What the source gives for an epoch; not always the same twice."""
        rows, state = [], dict(self.state)
        for _ in range(self.random.randint(0, 3)):
            key = self.random.randint(0, 2) if self.keyed else epoch * 100 + self.random.randint(0, 50)
            before = state.get(key) if self.keyed else None
            after = None if before is not None and self.random.random() < 0.3 else self.random.randint(0, 3)
            if before == after:
                continue
            rows.append((key, before, after))
            if after is None:
                state.pop(key, None)
            else:
                state[key] = after
        return rows

    def decide(self, epoch: int, attempt: str, rows: list[Row]) -> None:
        """Creates the epoch record if it is absent."""
        if epoch in self.decided:
            return
        self.decided[epoch] = (attempt, rows)
        for key, before, after in rows:
            if before is not None:
                self.files[key, before] -= 1
                self.state.pop(key, None)
            if after is not None:
                self.files[key, after] += 1
                self.state[key] = after


def value_of(mode: str, row: Row) -> bytes:
    key, before, after = row
    images = [None if v is None else {"id": key, "v": v} for v in (before, after)]
    if mode == "upsert" and after is not None:
        images[0] = None
    op = "d" if after is None else ("c" if images[0] is None else "u")
    return json.dumps({"before": images[0], "after": images[1], "op": op}, separators=(",", ":")).encode()


def task(model: Model, epoch: int, attempt: str, rows: list[Row]) -> Iterator[str]:
    for row in rows:
        model.append(row[0], value_of(model.mode, row), encode_header(DATA, "w", epoch, attempt))
        yield "appended"


def region(model: Model, since: int) -> pa.Table:
    part = model.log[since:]
    keys, values, headers = zip(*part, strict=True) if part else ((), (), ())
    columns = [range(since, len(model.log)), [0] * len(part), keys, values, headers]
    return pa.Table.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, RECORDS_SCHEMA, strict=True)], schema=RECORDS_SCHEMA
    )


Planner = Callable[[Healing, pa.Table], list[Correction]]


def driver_heals(model: Model, since: int, plan: Planner, zombie: bool = False) -> Iterator[str]:
    accepted = {e: frozenset({a}) for e, (a, _) in model.decided.items()}

    def lookup(keys: list[bytes]) -> dict[bytes, bytes | None]:
        found = {k: json.loads(k)["id"] for k in keys}
        return {
            k: value_of("upsert", (i, None, model.state[i])) if i in model.state else None for k, i in found.items()
        }

    healing = Healing("w", accepted, model.mode, model.keyed, FORM, lookup)
    for _ in range(60):
        end = len(model.log)
        try:
            corrections = plan(healing, region(model, since))
        except Fenced:
            assert zombie, "only a driver of the past may be fenced off"
            return
        if not corrections:
            if not zombie:  # what a driver has verified counts for its own next epoch only
                model.verified = end
            return
        for c in corrections:
            header = encode_header(CORRECTION, "w", c.epoch, c.attempt, c.ref, c.sign)
            model.log.append((c.key, c.value, header))
            yield "corrected"
    raise AssertionError("healing does not come to rest")


def simulate(seed: int, mode: str, keyed: bool, plan: Planner = Healing.plan, since_error: int = 0) -> Model:
    """Runs one schedule to its end, then lets maintenance heal once more."""
    model = Model(seed, mode, keyed)
    dice, zombies = model.random, []
    epoch = 0
    while epoch < 3:
        since = model.verified + since_error
        model.attempts += 1
        attempt, rows = f"{model.attempts:04x}", model.rows(epoch)
        tasks = [task(model, epoch, attempt, rows)]
        if dice.random() < 0.3:  # a speculative copy of the task
            tasks.append(task(model, epoch, f"s{model.attempts:03x}", rows))
        crashed = epoch not in model.decided and run(model, tasks[0], zombies, crash=0.25)
        zombies += tasks[1:] if epoch not in model.decided else []
        if crashed:
            if dice.random() < 0.6:
                zombies.append(tasks[0])
            continue
        if dice.random() < 0.1:  # the driver dies before it decides
            continue
        model.decide(epoch, attempt, rows)
        if dice.random() < 0.2:  # a second driver, of the run before, heals at the same time
            zombies.append(driver_heals(model, since, plan, zombie=True))
        if run(model, driver_heals(model, since, plan), zombies, crash=0.15):
            continue
        epoch += 1
    for left in zombies:
        for _ in left:
            pass
    for _ in driver_heals(model, model.verified + since_error, plan):
        pass
    return model


def run(model: Model, process: Iterator[str], zombies: list[Iterator[str]], crash: float) -> bool:
    """Lets a process run among zombies; True when it was killed."""
    while True:
        for zombie in list(zombies):
            if model.random.random() < 0.2 and next(zombie, None) is None:
                zombies.remove(zombie)
        if next(process, None) is None:
            return False
        if model.random.random() < crash:
            return True


def differences(model: Model) -> list[str]:
    """Compares the log with the files as a multiset and as a plain debezium-json consumer folds it."""
    net: Counter[tuple[int, int]] = Counter()
    folded: dict[int, int] = {}
    for _, value, _ in model.log:
        change = json.loads(value or b"null")
        before, after = change["before"], change["after"]
        if before is not None:
            net[before["id"], before["v"]] -= 1
        if after is not None:
            net[after["id"], after["v"]] += 1
        if change["op"] == "d":
            folded.pop(before["id"], None)
        else:
            folded[after["id"]] = after["v"]
    wrong = []
    if model.mode == "all" and +net - +model.files + (+model.files - +net):
        wrong.append(f"net {+net} is not files {+model.files}")
    if model.keyed and folded != model.state:
        wrong.append(f"fold {folded} is not {model.state}")
    return wrong


CASES = [("all", True), ("all", False), ("upsert", True)]


@pytest.mark.parametrize(("mode", "keyed"), CASES)
def test_the_log_ends_equal_to_the_decisions_whatever_dies(mode, keyed) -> None:
    for seed in range(1_500):
        found = differences(simulate(seed, mode, keyed))
        assert not found, f"seed {seed}: {found}"


def oldest_first(healing: Healing, part: pa.Table) -> list[Correction]:
    return Healing.plan(healing, part)[::-1]


def without_last_state(healing: Healing, part: pa.Table) -> list[Correction]:
    return Healing.plan(replace(healing, keyed=False), part)


def without_healing(healing: Healing, part: pa.Table) -> list[Correction]:
    return []


def goes_wrong(seed: int, plan: Planner = Healing.plan, since_error: int = 0) -> bool:
    try:
        return bool(differences(simulate(seed, "all", True, plan, since_error)))
    except AssertionError:  # it does not come to rest
        return True


@pytest.mark.parametrize("bug", [oldest_first, without_last_state, without_healing])
def test_a_planted_bug_is_found(bug) -> None:
    assert any(goes_wrong(seed, bug) for seed in range(400))


def test_offsets_off_by_one_are_found() -> None:
    assert any(goes_wrong(seed, since_error=1) for seed in range(400))

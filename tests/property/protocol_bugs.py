"""Bugs to plant into the protocol: the simulation has to find each one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakelog.logstore.control import Commit
from lakelog.logstore.header import CORRECTION, DATA, decode_header
from lakelog.logstore.healing import Correction, Healing
from lakelog.table.committed_records import CommittedRecords, Region

Plan = Callable[[Healing, pa.Table], list[Correction]]


@dataclass(frozen=True)
class Planted(Healing):
    """The real healing with a planner of the test's own."""

    planner: Plan = Healing.plan

    def plan(self, region: pa.Table, gone: range = range(0)) -> list[Correction]:
        return self.planner(self, region)


def real(healing: Healing) -> Healing:
    """A healing without what was planted into it."""
    return replace(healing, planner=Healing.plan)


def skip_healing(healing: Healing, region: pa.Table) -> list[Correction]:
    """Leaves redundant rows in the log for ever."""
    return []


def naive(healing: Healing, region: pa.Table) -> list[Correction]:
    """Takes back every refused row that no correction names; never looks at corrections themselves."""
    named, refused = set(), []
    for row in region.to_pylist():
        head = decode_header(row["header"], row["offset"])
        if head.writer != healing.writer:
            continue
        if head.kind == CORRECTION:
            named.add(head.ref)
        elif head.kind == DATA and head.attempt not in healing.accepted.get(head.epoch, frozenset()):
            refused.append((row, head))
    return [
        Correction(row["offset"], -1, head.epoch, head.attempt, row["key"], healing.format.inverse(row["value"]))
        for row, head in reversed(refused)
        if row["offset"] not in named
    ]


def oldest_first(healing: Healing, region: pa.Table) -> list[Correction]:
    """Appends inverses in the wrong order."""
    return Healing.plan(healing, region)[::-1]


def without_last_state(healing: Healing, region: pa.Table) -> list[Correction]:
    """Balances, and does not look at what is the last record of a key."""
    return Healing.plan(replace(healing, keyed=False, planner=Healing.plan), region)


def without_fence(healing: Healing, region: pa.Table) -> list[Correction]:
    """A driver of the past takes the rows of later epochs for refused ones."""
    return Healing.plan(
        replace(healing, accepted={10**6: frozenset(), **healing.accepted}, planner=Healing.plan), region
    )


Committed = Callable[..., CommittedRecords]


class Twice(CommittedRecords):
    """Takes every commit record for the first one of its epoch."""

    def _not_told(self, region: Region, run: list[Commit]) -> list[Commit]:
        return run


class FromHere(CommittedRecords):
    """Never reads back: shows of an epoch what lies in the same part of the log as its commit record."""

    def _region(self, bucket: int, first: int, last: int, records: pa.Table) -> Region:
        return lambda: iter([records])


@dataclass(frozen=True)
class Bug:
    """What is planted: another planner, an offset that is wrong, or a step of the driver done wrong."""

    plan: Plan = Healing.plan
    since_error: int = 0
    switch_at_newest: bool = False
    commit_first: bool = False
    acknowledge_first: bool = False
    decide_again: bool = False
    seal_again: bool = False
    forget_first: bool = False
    last_first: bool = False
    own_debts_only: bool = False
    debts_by_name: bool = False
    committed: Committed = CommittedRecords


NONE: Final = Bug()

BUGS: Final = {
    "skip-healing": Bug(plan=skip_healing),
    "wrong-order": Bug(plan=oldest_first),
    "name-only": Bug(plan=naive),
    "no-last-state": Bug(plan=without_last_state),
    "accept-fenced": Bug(plan=without_fence),
    "offset-too-low": Bug(since_error=-1),
    "offset-too-high": Bug(since_error=1),
    "switch-too-high": Bug(switch_at_newest=True),
    "commit-before-snapshot": Bug(commit_first=True),
    "acknowledge-before-decision": Bug(acknowledge_first=True),
    "decide-twice": Bug(decide_again=True),
    "seal-twice": Bug(seal_again=True),
    "forget-before-telling": Bug(forget_first=True),
    "first-of-last-task": Bug(last_first=True),
    "own-debts-only": Bug(own_debts_only=True),
    "debts-by-name": Bug(debts_by_name=True),
    "tell-twice": Bug(committed=Twice),
    "never-read-back": Bug(committed=FromHere),
}

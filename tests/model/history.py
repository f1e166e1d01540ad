"""A history: a table and its steps, drawn from a seed, run in a new warehouse, and compared with the model."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import model.actions  # noqa: F401 - registers the actions
from lakelog.errors import (
    InvalidOption,
    InvalidSchema,
    LakelogError,
    NotInstalled,
    UnsupportedFeature,
    UnsupportedStatement,
)
from model.action import ACTIONS, Action
from model.actions.actors import Follow
from model.actions.refs import Branch, Rollback
from model.readings import BY_LAKELOG, READINGS, Reading
from model.script import CLOCK, FAILING, HEADER, HELPERS, MADE, MEANWHILE, OPTIMIZE, PIPE, STREAM, VIEW, script
from model.tables import Table, draw_table, may_hide
from model.world import NotPossible, Refused, State, World

_SHARED = Path("/dev/shm")
"""A file system in memory, if there is one: no history waits for a disk."""


@dataclass(frozen=True)
class History:
    """A table, and the steps that follow from the seed, or are given."""

    seed: int
    table: Table
    steps: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Given:
    """What histories meet: no action, way, reading or words of CREATE that are left out; some actions ten times as
    often."""

    leaves_out: frozenset[str] = frozenset()
    often: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Failure:
    """What is wrong after the last of these steps. ``kind`` is the name of a reading, or ``raised``, ``accepted``,
    ``refused``."""

    history: History
    kind: str
    last: str
    found: str
    executed: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """A script that shows it."""
        return script(self.history.table.code, self.executed, f"{self.last}\n# {self.found}")


@dataclass
class Runner:
    """Runs steps one by one in a warehouse of its own, and compares."""

    history: History
    rng: random.Random
    given: Given = Given()
    executed: list[str] = field(default_factory=list)
    done: list[Action] = field(default_factory=list)
    shown: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    forgets: bool = False

    def begin(self) -> bool:
        """Makes the table; False if CREATE refuses it."""
        self.names: dict[str, Any] = {}
        helpers = HELPERS + VIEW + PIPE + CLOCK + OPTIMIZE + STREAM + FAILING + MEANWHILE
        exec(HEADER.replace("tempfile.mkdtemp()", repr(self.place)) + helpers, self.names)
        self.names["_now"] = _NOW
        try:
            exec(MADE.format(create=self.history.table.code), self.names)
        except (InvalidOption, InvalidSchema, UnsupportedFeature):
            return False
        self.world = World.of(self.history.table)
        return True

    def step(self, action: Action) -> Failure | None:
        """Runs one step; a failure if it was refused or accepted wrongly."""
        if self.world.waits and action.settles is None:
            return None
        outcomes, must_refuse = [], ""
        try:
            outcomes = action.outcomes(self.world)
        except NotPossible:
            return None
        except Refused as why:
            must_refuse = str(why)
        self.done.append(action)
        number = len(self.executed)
        code = action.code.replace("{n}", str(number))
        if self.world.waits and action.settles:
            code += "\nt.seal()"
        try:
            exec(code, self.names)
        except LakelogError as why:
            self.executed.append(
                f"try: exec({code!r})\nexcept lakelog.errors.LakelogError: pass"
                if "\n" in code
                else f"try: {code}\nexcept lakelog.errors.LakelogError: pass"
            )
            words = f"{type(why).__name__}: {why}"
            if (
                must_refuse
                or isinstance(why, NotInstalled)
                or _has(words, _BY_STATE)
                or (action.may_refuse and _has(words, action.may_refuse))
            ):
                self.names["t"] = self.names["lake"].table("db.t")
                if self.world.waits:
                    exec("t.seal()", self.names)
                    self.executed[-1] += "\nt.seal()"
                    self.world.waits = False
                self.world = self._outcome(action.left(self.world))
                return self._note(number, "t")
            self.executed[-1] = code
            return self.failure("refused", "", f"refused: {words[:600]}")
        except Exception as why:
            self.executed.append(code)
            return self.failure("raised", "", f"{type(why).__name__}: {str(why)[:600]}")
        self.executed.append(code)
        if must_refuse:
            return self.failure("accepted", "", f"accepted, but {must_refuse}")
        columns = [c.name for c in self.world.columns]
        after = self.world = self._outcome(outcomes)
        after.waits &= not action.settles
        handle = getattr(action, "handle", "t")
        is_lazy = may_hide(after.table) and after.handle(handle).options.get("write-only") == "true"
        waits = may_hide(after.table) and after.seen is not after.rows and not action.writes
        if action.merges or not (is_lazy or waits):
            after.seen = after.rows
        self.forgets |= action.forgets
        self.world.follows &= [c.name for c in self.world.columns] == columns or isinstance(action, Follow)
        if isinstance(action, Rollback | Branch):
            there = {tag.name for tag in self.names["t"].tags()}
            self.world.tags = {name: state for name, state in self.world.tags.items() if name in there}
        return self._note(number, handle)

    def _note(self, number: int, handle: str) -> Failure | None:
        """Notes what the new snapshots show, which has to stay."""
        try:
            ids = [snapshot.id for snapshot in self.names["t"].snapshots()]
        except Exception as why:
            return self.failure("raised", "t.snapshots()", f"{type(why).__name__}: {str(why)[:600]}")
        gone = [found for found in self.shown if found not in ids]
        if gone and not self.forgets:
            return self.failure(
                "snapshots", "print([s.id for s in t.snapshots()])", f"snapshots {gone} are gone, nobody expired them"
            )
        self.shown = {found: rows for found, rows in self.shown.items() if found in ids}
        if ids:
            line = f"s{number} = t.latest_snapshot().id"
            exec(line, self.names)
            self.executed[-1] += f"; {line}" if "\n" not in self.executed[-1] else f"\n{line}"
            for found in ids:
                if found not in self.shown and found != ids[-1]:
                    self.shown[found] = self.evaluate(f"rows(t.scan(snapshot_id={found}))")
            if ids[-1] not in self.shown:
                self.states[ids[-1]] = state = self._state(ids[-1], handle)
                self.shown[ids[-1]] = self.world.earlier(state)
            self.world.marks[number] = self.world.newest = self.states[ids[-1]]
            there = {n for n in self.world.marks if self.names[f"s{n}"] in ids}
            self.world.marks = {n: state for n, state in self.world.marks.items() if n in there}
        return None

    def _state(self, number: int, handle: str) -> State:
        """The state of a new snapshot. A job with an old handle writes with the columns that it knows, or with all."""
        state = State(self.world.rows, self.world.seen, self.world.columns)
        older = replace(state, columns=self.world.handle(handle).columns)
        if older != state:
            names = self.evaluate(f"t.scan(snapshot_id={number}).to_arrow().column_names")
            if names == [column.name for column in older.columns]:
                return older
        return state

    def _outcome(self, outcomes: list[World]) -> World:
        """The state that the step has led to: its rows say which."""
        if len(outcomes) > 1:
            if may_hide(self.history.table):
                self.executed[-1] += "\nt.compact()"
                exec("t.compact()", self.names)
            try:
                found = self.evaluate("rows(t.scan())")
            except Exception:
                return outcomes[0]
            for state in outcomes:
                state.seen = state.rows
                if state.visible() == found:
                    return state
        return outcomes[0]

    def evaluate(self, code: str) -> Any:
        """The value of an expression of a user."""
        return eval(code, self.names)

    def check(self, readings: Sequence[Reading]) -> Failure | None:
        """The first reading that is not right."""
        for reading in readings:
            try:
                found = self.evaluate(reading.code)
            except (NotInstalled, UnsupportedStatement):
                continue
            except Exception as why:
                return self.failure(reading.name, f"print({reading.code})", f"{type(why).__name__}: {str(why)[:600]}")
            if found != reading.wanted:
                return self.failure(
                    reading.name, f"print({reading.code})", f"found {found!r}\n# but it is {reading.wanted!r}"
                )
        return None

    def readings(self, every: bool) -> Iterator[Reading]:
        """Readings of this state: some, or all kinds."""
        for name, (maker, _) in READINGS.items():
            if self.world.waits and name not in BY_LAKELOG:
                continue
            if name not in self.given.leaves_out and (every or name == "scan" or self.rng.random() < 0.3):
                yield from maker(self.world, self.rng)
        old = list(self.shown) if every else self.rng.sample(list(self.shown), min(1, len(self.shown)))
        for found in old:
            yield Reading("history", f"rows(t.scan(snapshot_id={found}))", self.shown[found])

    def failure(self, kind: str, last: str, found: str) -> Failure:
        history = replace(self.history, steps=tuple(self.done))
        return Failure(history, kind, last, found, tuple(self.executed))

    @property
    def place(self) -> str:
        return self._place

    @contextmanager
    def warehouse(self) -> Iterator[None]:
        """A directory of its own; the right clock and the environment of before afterwards."""
        self._place = tempfile.mkdtemp(prefix="lakelog-model-", dir=_SHARED if _SHARED.is_dir() else None)
        before = dict(os.environ)
        try:
            yield
        finally:
            time.time_ns = _NOW
            os.environ.clear()
            os.environ.update(before)
            time.tzset()
            if "lake" in self.names:
                self.names["lake"].close()
            shutil.rmtree(self._place, ignore_errors=True)


_NOW = time.time_ns
_READ = 0.4
"""The share of the steps after which a drawn history is read; all kinds of readings follow at its end."""
_BY_STATE = "before you add rows|that are written at once have a sum that does not fit"
"""A rollback brings the number of buckets of then back: the next write says so, and what to do. An aggregation takes no
rows at once whose sum does not fit."""


def _has(text: str, words: str) -> bool:
    return any(word.lower() in text.lower() for word in words.split("|"))


def drawn(seed: int, length: int, log: str | None = None, given: Given = Given()) -> Failure | Runner:
    """Draws and runs a history of so many steps."""
    rng = random.Random(seed)
    actions = [kind for kind in ACTIONS if kind.__name__ not in given.leaves_out]
    weights = [kind.weight * (10 if kind.__name__ in given.often else 1) for kind in actions]
    while True:
        table = draw_table(rng, log)
        if any(words in table.code for words in given.leaves_out):
            continue
        runner = Runner(History(seed, table), rng, given)
        with runner.warehouse():
            if not runner.begin():
                continue
            tries = 0
            while len(runner.done) < length and tries < 20 * length:
                tries += 1
                (kind,) = rng.choices(actions, weights)
                action = kind.draw(rng, runner.world)
                if action is None:
                    continue
                if given.leaves_out & {getattr(action, "how", ""), getattr(action, "kind", "")}:
                    continue
                failure = runner.step(action)
                if failure is None and rng.random() < _READ:
                    failure = runner.check(list(runner.readings(False)))
                if failure is not None:
                    return failure
            return runner.check(list(runner.readings(True))) or runner


def replayed(history: History, kind: str | None = None) -> Failure | None:
    """Runs the steps of a history again, with all readings after each; ``kind``: with one kind, at the end."""
    runner = Runner(history, random.Random(history.seed))
    with runner.warehouse():
        if not runner.begin():
            return None
        for number, action in enumerate(history.steps):
            failure = runner.step(action)
            if failure is None and (kind is None or number == len(history.steps) - 1):
                found = [one for _ in range(1 if kind is None else 5) for one in runner.readings(True)]
                failure = runner.check([one for one in found if kind in (None, one.name)])
            if failure is not None:
                return failure
    return None

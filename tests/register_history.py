"""What clients asked and were answered, and whether one order explains it: each key is a register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

Value = int | None
"""What a register holds; only a rollback writes a value again, None is a key without a row."""

_MOST_TOLD = 40

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass(eq=False)
class Write:
    """A write of some keys at once. ``tries`` are what it may have written by key, one of them and that whole: a source
    may give a second try other rows than the first.

    ``clears``: it deletes all other keys. ``outcome``: ``ok`` it is in; ``failed`` it must never be seen; ``unknown``
    either.
    """

    who: str
    invoked: int
    tries: list[dict[int, Value]] = field(default_factory=list)
    responded: float = inf
    outcome: str = UNKNOWN
    clears: bool = False

    def deletes(self, key: int) -> bool:
        """Returns whether it may delete a key."""
        return any(t[key] is None if key in t else self.clears for t in self.tries)


@dataclass(frozen=True)
class Read:
    """One key as a read has found it."""

    who: str
    key: int
    value: Value
    invoked: int
    responded: float


class History:
    """What happened, in the order of a counter."""

    def __init__(self) -> None:
        self._clock = 0
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.sights: dict[tuple[int, Value], float] = {}

    def tick(self) -> int:
        """The next moment."""
        self._clock += 1
        return self._clock

    def invoke(self, who: str) -> Write:
        """A write begins."""
        write = Write(who, self.tick())
        self.writes.append(write)
        return write

    def respond(self, write: Write, outcome: str) -> None:
        """A write was answered; the first answer that is not unknown counts."""
        if write.outcome == UNKNOWN and outcome != UNKNOWN:
            write.outcome, write.responded = outcome, self.tick()

    def read(self, who: str, invoked: int, found: Mapping[int, Value], keys: Iterable[int]) -> None:
        """A read was answered."""
        now = self.tick()
        self.reads += [Read(who, key, found.get(key), invoked, now) for key in keys]

    def sight(self, key: int, value: Value, by: float) -> None:
        """A value was seen at a moment, and was the newest one then or before: what a reader of changes knows."""
        self.sights[key, value] = min(by, self.sights.get((key, value), inf))

    def keys(self) -> set[int]:
        """All keys that somebody may have written."""
        return {key for write in self.writes for written in write.tries for key in written}

    def conclude(self, found: Mapping[int, Value]) -> None:
        """Nothing will happen any more, and ``found`` is all there is: a doubtful write has happened, whole, if nothing
        else can have deleted a key that is missing."""
        seen = {read.key for read in self.reads if read.value is not None}
        seen |= {key for w in self.writes if w.outcome == OK and len(w.tries) == 1 for key in w.tries[0]}
        for key in sorted(seen - found.keys()):
            able = [w for w in self.writes if w.outcome != FAILED and w.deletes(key)]
            if len(able) == 1:
                self.respond(able[0], OK)

    def wrong(self) -> list[str]:
        """What nobody may have seen, and what is wrong with each key that has no order."""
        of_value: dict[Value, list[Write]] = {}
        for w in self.writes:
            for value in {v for t in w.tries for v in t.values() if v is not None}:
                of_value.setdefault(value, []).append(w)
        wrong = []
        seen = dict(self.sights)
        for read in self.reads:
            if read.value is not None:
                seen[read.key, read.value] = min(read.responded, seen.get((read.key, read.value), inf))
        readers = {(read.key, read.value): read.who for read in self.reads}
        for key, value in seen:
            writes, who = of_value.get(value, []), readers.get((key, value), "a reader of changes")
            if not writes:
                wrong.append(f"{who} found {value} of key {key}, which nobody wrote")
            elif all(write.outcome == FAILED for write in writes):
                wrong.append(f"{who} found {value} of key {key}, but {writes[0].who} was refused")
        repeated = {(k, v) for w in self.writes for t in w.tries for k, v in t.items() if len(of_value.get(v, ())) > 1}
        ops: dict[int, list[_Op]] = {}
        every = self.keys()
        for write in self.writes:
            if write.outcome == FAILED:
                continue
            # a value that a rollback writes again may be seen of either write
            found = {item for t in write.tries for item in t.items() if item in seen and item not in repeated}
            # what was seen of it was decided by then, and the rest of it, too
            responded = min([write.responded if write.outcome == OK else inf, *(seen[item] for item in found)])
            tries = [t for t in write.tries if found <= t.items()]
            if write.clears:
                tries = [dict.fromkeys(every) | t for t in tries]
            if not tries:
                wrong.append(f"two tries of {write.who} were seen: {sorted(found)}")
            for key in {key for t in tries for key in t}:
                is_sure = bool(found) or (write.outcome == OK and len(tries) == 1)
                is_sure = is_sure and all(key in t for t in tries)
                values = sorted({t[key] for t in tries if key in t}, key=lambda v: v or 0)
                value = next((v for v in values if (key, v) in seen), values[0])
                ops.setdefault(key, []).append(_Op(write.who, value, write.invoked, responded, is_sure))
        for read in self.reads:
            ops.setdefault(read.key, []).append(
                _Op(read.who, read.value, read.invoked, read.responded, True, is_read=True)
            )
        for key, held in sorted(ops.items()):
            op = _without_order(held)
            if op is not None:
                wrong.append(f"key {key} has no order: {_told(held, op)}")
        return wrong


@dataclass(frozen=True, eq=False)
class _Op:
    who: str
    value: Value
    invoked: int
    responded: float
    is_sure: bool
    is_read: bool = False


_Place = tuple[frozenset[_Op], Value]
"""What has taken effect of the operations that run, and what the register holds."""


def _without_order(ops: Sequence[_Op]) -> _Op | None:
    """None when there is an order that agrees with real time, in which each read has the value of the last write; else
    the first answer that cannot be explained.

    Goes through the answers in time and keeps all places that explain those so far (Lowe's linearization just in
    time): the work grows with how many operations run at once, not with how many there are. Deletions that may or may
    not have happened are all alike, so that of them only the number counts that was needed.
    """
    seen = {op.value for op in ops if op.is_read}
    steps: list[tuple[float, bool, _Op]] = []
    for op in ops:
        if op.is_sure or op.value in seen:  # else nothing tells it from a write that never happened
            steps.append((op.invoked, True, op))
        if op.is_sure:
            steps.append((op.responded, False, op))
    running: set[_Op] = set()
    maybe_deleted = 0
    places: dict[_Place, int] = {(frozenset(), None): 0}
    for _, is_begin, op in sorted(steps, key=lambda step: step[:2]):
        if is_begin and op.value is None and not op.is_sure:
            maybe_deleted += 1
        elif is_begin:
            running.add(op)
        else:
            places = _after(op, places, running, maybe_deleted)
            running.discard(op)
            if not places:
                return op
    return None


def _after(op: _Op, places: Mapping[_Place, int], running: set[_Op], maybe_deleted: int) -> dict[_Place, int]:
    """The places in which a running operation has taken effect; place → how many doubtful deletions it needs."""
    out: dict[_Place, int] = {}
    known: dict[_Place, int] = {}
    stack = list(places.items())
    while stack:
        (done, value), used = stack.pop()
        # a read that fits costs no other order anything
        done |= {r for r in running if r.is_read and r.value == value}
        if known.get((done, value), maybe_deleted + 1) <= used:
            continue
        known[done, value] = used
        if op in done:
            place = (done - {op}, value)
            out[place] = min(used, out.get(place, used))
            continue
        stack += [((done | {w}, w.value), used) for w in running if not w.is_read and w not in done]
        if value is not None and used < maybe_deleted:
            stack.append(((done, None), used + 1))
    return out


def _told(ops: Sequence[_Op], wrong: _Op) -> str:
    """The operations up to the one that is wrong; of many the last ones."""
    known = [op for op in ops if op.invoked <= wrong.responded]
    told = []
    for op in sorted(known, key=lambda op: op.responded)[-_MOST_TOLD:]:
        what = "reads" if op.is_read else "writes" if op.is_sure else "may write"
        told.append(f"[{op.invoked}-{op.responded:.0f}] {op.who} {what} {op.value}")
    return f"{wrong.who} cannot be explained by " + "; ".join(told)

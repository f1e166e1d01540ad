"""Readers of the simulated table, and what must hold after every step, while nothing is at work, and at the end.

The numbers are those of the invariants: 1 same table, 2 nothing acknowledged is lost, 3 nothing twice, 4 never ahead of
the files, 5 switch-over, 6 independence of cuts, 7 no hold-up, 8 plain consumers agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import cache

from protocol_records import SHARED, Change, Folded, changes_of
from protocol_world import Record, World, differences, files_of, records_of

from lakelog.logstore.header import CORRECTION, DATA, Header, decode_header
from lakelog.table.log_position import Switch


class Wrong(Exception):
    """An invariant does not hold."""


@cache
def head_of(header: bytes) -> Header:
    """A parsed header."""
    return decode_header(header, 0)


class Reader(ABC):
    """Reads the log from an offset in random pieces; dies now and then and goes on from its checkpoint."""

    def __init__(self, world: World, start: int) -> None:
        self.world, self.start, self.position, self.done = world, start, start, False
        self.begin, self.out = Folded().add_values(value for _, value, _ in world.log[:start]), list[Change]()
        self._checkpoint = (start, 0)
        self._batches: dict[int, tuple[int, list[Change]]] = {}

    def step(self) -> None:
        """One micro-batch, which may be the repetition of one that was planned before the reader died."""
        dice, log = self.world.dice, self.world.log
        if dice.random() < 0.1:
            self.position, kept = self._checkpoint
            del self.out[kept:]
        start = self.position
        if start >= len(log):
            return
        end, before = self._batches.get(start, (min(len(log), start + dice.randint(1, 6)), None))
        rows = self.emit(start, end)
        if before is not None and rows != before:
            raise Wrong(f"6: {self} reads {rows} from {start} to {end}, and before it were {before}")
        self._batches[start] = end, rows
        self.out += rows
        self.position = end
        if dice.random() < 0.5:
            self._checkpoint = end, len(self.out)

    def kill(self) -> None:
        self.done = True

    def read_on(self) -> None:
        """Reads up to the end."""
        while self.position < len(self.world.log):
            self.step()

    @abstractmethod
    def emit(self, start: int, end: int) -> list[Change]:
        """The rows of a micro-batch, of nothing but the log."""

    @abstractmethod
    def check_at_rest(self) -> None:
        """What holds when all epochs are decided and the reader is at the end. Raises Wrong."""

    def __repr__(self) -> str:
        return f"{type(self).__name__} from {self.start}"


class Eventual(Reader):
    """Emits everything at once; begins anywhere, also inside an open epoch."""

    def emit(self, start: int, end: int) -> list[Change]:
        return [
            change for _, value, _ in self.world.log[start:end] if value is not None for change in changes_of(value)
        ]

    def check_at_rest(self) -> None:
        seen = Folded(Counter(self.begin.net), dict(self.begin.rows)).add(self.out)
        if wrong := seen.differs(files_of(self.world), self.world.case, SHARED):
            raise Wrong(f"1, 6: {self}: {wrong}")


class WithoutGuarantee(Reader):
    """Emits data only: perhaps twice, but all that counts."""

    def emit(self, start: int, end: int) -> list[Change]:
        return [c for r in self.world.log[start:end] if is_kind(r, DATA) for c in changes_of(r[1] or b"")]

    def check_at_rest(self) -> None:
        world = self.world
        accepted = Counter(c for r in world.log[self.start :] if is_accepted(world, r) for c in changes_of(r[1] or b""))
        if missing := accepted - Counter(self.out):
            raise Wrong(f"2: {self} misses {missing}")


class SwitchedOver(Reader):
    """Begins with the newest snapshot whole and goes on in the log, for each writer where the snapshot has it all.

    It leaves out records by their offset, not by their epoch: behind that offset lie, of an epoch that the snapshot
    holds, redundant rows of late attempts and what takes them back, which leave the keys right only together.
    One in ten has lakelog's own ``Switch`` leave them out. ``at_newest`` would be one offset for all writers, the
    newest one.
    """

    def __init__(self, world: World, start: int, at_newest: bool = False) -> None:
        found = world.origins | {w: verified for w, (_, verified) in world.snapshot.sealed.items()}
        self.switch = Switch({0: len(world.log)}, {w: {0: offset} for w, offset in found.items()})
        self.is_real = world.dice.random() < 0.1
        self.from_offset = dict.fromkeys(found, max(found.values(), default=0)) if at_newest else found
        super().__init__(world, min([*self.from_offset.values(), len(world.log)]))
        self.begin = files_of(world, world.snapshot.places)

    def emit(self, start: int, end: int) -> list[Change]:
        if self.is_real:
            kept = self.switch.kept(0, records_of(self.world.log[start:end], start))
            return [c for value in kept.column("value").to_pylist() if value is not None for c in changes_of(value)]
        records = enumerate(self.world.log[start:end], start)
        return [c for o, r in records if r[1] is not None and self._is_new(o, r) for c in changes_of(r[1])]

    def _is_new(self, offset: int, record: Record) -> bool:
        return offset >= self.from_offset.get(head_of(record[2]).writer, 0)

    def check_at_rest(self) -> None:
        seen = Folded(Counter(self.begin.net), dict(self.begin.rows)).add(self.out)
        if wrong := seen.differs(files_of(self.world), self.world.case, SHARED):
            raise Wrong(f"5: {self}: {wrong}")


def is_kind(record: Record, kind: str) -> bool:
    return head_of(record[2]).kind == kind


def is_accepted(world: World, record: Record) -> bool:
    """Whether the record is a row of an attempt that counts."""
    head = head_of(record[2])
    decision = world.decisions.get((head.writer, head.epoch))
    return head.kind == DATA and decision is not None and head.attempt in decision.attempts


def check_step(world: World) -> None:
    """What holds after every step, whatever is open. Raises Wrong."""
    held = world.snapshot.places
    if len(set(held)) < len(held):
        raise Wrong(f"3: a snapshot holds an epoch twice: {held}")
    for place in world.order:
        if (place in held) + (place in world.staged and place[1] > world.sealed(place[0])[0]) != 1:
            raise Wrong(f"2, 3: epoch {place} is decided, and not once in snapshot {held} and records {world.staged}")
    if lost := world.acknowledged.difference(world.decisions):
        raise Wrong(f"2: {lost} was acknowledged and is nowhere")


def check_acknowledged(world: World, writer: str, epoch: int) -> None:
    """What holds when an epoch is acknowledged: its rows are in the log. Raises Wrong."""
    decision = world.decisions.get((writer, epoch))
    heads = [head_of(r[2]) for r in world.log if is_accepted(world, r)]
    found = sum((h.writer, h.epoch) == (writer, epoch) for h in heads)
    if decision is None or found < decision.appended - len(decision.attempts):
        raise Wrong(f"2: epoch {epoch} of {writer} is acknowledged, the log has {found} records of {decision}")


def check_rest(world: World) -> None:
    """What holds when nothing is open: log and files are one table. Raises Wrong."""
    if wrong := differences(world):
        raise Wrong(f"1, 3, 8: {wrong}")


def listing(world: World) -> list[str]:
    """The log, a line a record."""
    out = []
    for offset, (_, value, header) in enumerate(world.log):
        head = head_of(header)
        counts = "counts" if is_accepted(world, (None, value, header)) else ""
        what = f"of {head.ref} sign {head.sign:+d}" if head.kind == CORRECTION else counts
        text = "" if value is None else " ".join(f"{op}{key}:{v}" for op, key, v in changes_of(value))
        out.append(f"{offset:4} {head.kind} {head.writer} {head.epoch} {head.attempt.lstrip('0'):3} {text:20} {what}")
    return out

"""Transactional readers of the simulated log: the real ``CommittedRecords``, and what it must have shown."""

from __future__ import annotations

from collections import Counter

from protocol_bugs import Committed
from protocol_readers import Reader, Wrong, head_of, is_accepted, is_kind
from protocol_records import Change, Folded, changes_of
from protocol_world import ListLog, Place, World, files_of

from lakelog.logstore.header import COMMIT
from lakelog.table.committed_records import CommittedRecords
from lakelog.table.log_position import Switch

_HELD = 3
"""Records that it looks at at a time: fewer than an epoch has."""


class Transactional(Reader):
    """Shows the rows of an epoch at its first commit record, whole; begins anywhere, also inside an open epoch.

    What it shows goes on from what was told before it came, and folds by key to the table that the files are, of
    however many writers: the file store keeps of a key what the newest snapshot has brought.
    """

    switch: Switch | None = None

    def __init__(self, world: World, start: int, committed: Committed = CommittedRecords) -> None:
        super().__init__(world, start)
        told = {place for place, offset in first_commits(world).items() if offset < start}
        self.begin = files_of(world, [place for place in world.snapshot.places if place in told])
        self._log = ListLog(world, None)
        self._committed = committed

    def emit(self, start: int, end: int) -> list[Change]:
        records = self._log.read(0, start, end, end - start)
        if not records.num_rows:
            return []
        parts = self._committed(self._log, _HELD, self.switch).shown(0, records)
        return [c for part in parts for value in part.column("value").to_pylist() for c in changes_of(value)]

    def step(self) -> None:
        super().step()
        if self.out != (expected := self._expected()):
            raise Wrong(f"4, 6, 7: {self} has shown {self.out} up to {self.position}, and should {expected}")

    def _expected(self) -> list[Change]:
        """The rows of all epochs whose first commit record lies behind the start, in the order of these records."""
        log, out = self.world.log, list[Change]()
        for place, offset in first_commits(self.world).items():
            if place not in self.world.snapshot.places:
                raise Wrong(f"4: epoch {place} is told at {offset}, and the files do not hold it")
            if self.start <= offset < self.position and self.is_new(place):
                rows = (r for r in log[:offset] if is_accepted(self.world, r) and of_place(r[2]) == place)
                out += [c for _, value, _ in rows for c in changes_of(value or b"")]
        return out

    def is_new(self, place: Place) -> bool:
        """Whether the reader has not got this epoch in another way."""
        return True

    def check_at_rest(self) -> None:
        world = self.world
        rows = {place for place in world.snapshot.places if world.decisions[place].attempts}
        if held_up := rows.difference(first_commits(world)):
            raise Wrong(f"7: {self} never shows {held_up}")
        seen = Folded(Counter(self.begin.net), dict(self.begin.rows)).add(self.out)
        if wrong := seen.differs(files_of(world, world.snapshot.places), world.case):
            raise Wrong(f"4: {self} ends with another table than the files: {wrong}")


class TransactionalBehindSnapshot(Transactional):
    """Begins with the newest snapshot whole and goes on at the end that the log has then."""

    def __init__(self, world: World, start: int, committed: Committed = CommittedRecords) -> None:
        super().__init__(world, len(world.log), committed)
        self.sealed = {writer: world.sealed(writer)[0] for writer in world.origins}
        self.switch = Switch({0: self.start}, {}, sealed=self.sealed)
        self.begin = files_of(world, world.snapshot.places)

    def is_new(self, place: Place) -> bool:
        return place[1] > self.sealed.get(place[0], -1)


def of_place(header: bytes) -> Place:
    """The writer and epoch of a record."""
    head = head_of(header)
    return head.writer, head.epoch


def first_commits(world: World) -> dict[Place, int]:
    """Each epoch that has a commit record, and the offset of its first one, in their order."""
    out: dict[Place, int] = {}
    for offset, record in enumerate(world.log):
        if is_kind(record, COMMIT):
            out.setdefault(of_place(record[2]), offset)
    return out

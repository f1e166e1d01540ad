"""How a driver seals in the simulation: a snapshot, then the control records that say so, then all is told."""

from __future__ import annotations

from collections.abc import Sequence

from protocol_bugs import Bug
from protocol_process import Killed, Process
from protocol_readers import head_of
from protocol_world import Known, ListLog, Place, Snapshot, World

from lakelog.logstore.control import commit_record


def seal(world: World, me: Process, writer: str, now: Known, bug: Bug) -> None:
    """Decided epochs become a snapshot, then control records say so, also those that a dead driver owes."""
    before = world.snapshot
    base = world.sealed(writer)[0]
    places = [(writer, e) for e in range(base + 1, now.decided + 1)]
    untold = owed(world, writer)
    if not places:
        tell(world, me, untold, before, now, bug)
        return
    if bug.commit_first:
        append_commits(world, me, places, now, bug)
    me.pause()
    if base != world.sealed(writer)[0] and not bug.seal_again:
        world.events["lost seals"] += 1
        return  # somebody else has sealed; the next seal looks again
    sealed = {**world.snapshot.sealed, writer: (now.decided, now.verified)}
    made = world.snapshot = Snapshot((*world.snapshot.places, *places), sealed)
    me.pause()
    stumble(world, me)
    tell(world, me, [*untold, *places], made, now, bug)


def stumble(world: World, me: Process) -> None:
    """Behind its snapshot a driver dies, or is held up while others go on, more often than chance would have it."""
    chance = world.dice.random()
    if chance < 0.2:
        world.events["deaths behind a snapshot"] += 1
        raise Killed
    if chance < 0.4:
        me.sleep(world.dice.randint(1, 40) / 1000)


def owed(world: World, writer: str) -> list[Place]:
    """The sealed epochs of a writer whose records are staged yet, in their order."""
    return sorted(p for p in world.staged if p[0] == writer and p[1] <= world.sealed(writer)[0])


def tell(world: World, me: Process, places: Sequence[Place], made: Snapshot, now: Known, bug: Bug) -> None:
    """Appends commit records of sealed epochs of a writer, behind what others owe; then forgets the epoch records."""
    if not places:
        return
    if bug.forget_first:
        world.staged -= set(places)
        me.pause()
    if not bug.commit_first:
        for place in debts(world, places, made, bug):
            append_commits(world, me, [place], now, bug)
            ListLog(world, me).flush()
            if place not in places:
                world.events["epochs told for others"] += 1
                world.staged.discard(place)
                me.pause()
    world.staged -= set(places)
    me.pause()


def debts(world: World, places: Sequence[Place], made: Snapshot, bug: Bug) -> list[Place]:
    """These epochs of a writer, and what others owe of snapshots before theirs, in the order of the snapshots."""
    if bug.own_debts_only:
        return list(places)
    last = max(made.places.index(place) for place in places)
    found = [p for p in made.places[: last + 1] if p in places or (p in world.staged and p[0] != places[0][0])]
    return sorted(found) if bug.debts_by_name else found


def append_commits(world: World, me: Process, places: Sequence[Place], now: Known, bug: Bug) -> None:
    """Appends a commit record for each epoch that has anything in the log."""
    log = ListLog(world, me)
    for writer, epoch in places:
        attempts = world.decisions[writer, epoch].attempts
        firsts = _firsts(world, (writer, epoch), attempts)
        if firsts:
            first = max(firsts) if bug.last_first else min(firsts)
            log.append(0, commit_record(writer, epoch, sorted(attempts), first))
            now.extra += 1


def _firsts(world: World, place: Place, attempts: frozenset[str]) -> list[int]:
    """Where the records of each of these attempts begin."""
    found: dict[str, int] = {}
    for offset, (_, _, header) in enumerate(world.log):
        head = head_of(header)
        if (head.writer, head.epoch) == place and head.attempt in attempts:
            found.setdefault(head.attempt, offset)
    return list(found.values())

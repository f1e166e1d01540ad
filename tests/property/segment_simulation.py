"""One schedule of a log in files: the real appenders, readers and expiry on simulated storage, then a log at rest."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from segment_clients import Client, Expirer, LogWorld, Reader, Writer
from segment_storage import DELETE_AFTER_MS
from simulated_process import DoesNotRest

from lakelog.errors import Unavailable
from lakelog.io import clock, names
from lakelog.logstore.base import LogLocation
from lakelog.logstore.files import appender, chain
from lakelog.logstore.files.appender import FilesAppender
from lakelog.logstore.files.chain import SegmentChain
from lakelog.logstore.files.reader import FilesReader
from lakelog.logstore.files.system import FilesLogSystem


@dataclass(frozen=True)
class Outcome:
    """The result of a schedule: errors, number of steps, events, and the trace."""

    wrong: tuple[str, ...]
    steps: int
    events: Counter[str]
    trace: tuple[str, ...]


@contextmanager
def _installed(world: LogWorld) -> Iterator[None]:
    """Context in which the code of the log runs in this world. Rare work (hints, expiry, rereads) is frequent."""
    held = world.dice.choice((1, 3, 1024))
    with ExitStack() as stack:
        for module, name, fake in (
            (clock, "time", world.clock),
            (names, "uuid", world.clock),
            (names, "random", world.clock),
            (chain, "HINT_EVERY", world.dice.choice((1, 4, 64))),
            (chain, "_HELD_FOOTERS", held),
            (chain, "_HELD_SMALL", held),
            (appender, "_EXPIRE_EVERY", world.dice.choice((1, 4, 8))),
        ):
            stack.enter_context(patch.object(module, name, fake))
        address = world.dice.choice(("memory/t", "s3://t"))
        world.location = FilesLogSystem().create(LogLocation("files", address, "t", 2, storage=world.storage))
        yield


def simulate_log(seed: int, traced: bool = False) -> Outcome:
    """Runs a schedule to its end."""
    world = LogWorld(random.Random(seed))
    clients: list[Client] = []
    world.clock.trace = [] if traced else None
    with _installed(world):
        try:
            dice = world.dice
            for kind, count in ((Writer, (1, 2, 2, 3, 3)), (Reader, (1, 1, 2)), (Expirer, (1, 1, 2))):
                clients += [kind(world, f"{kind.__name__.lower()} {n}") for n in range(dice.choice(count))]
            for client in clients:
                world.clock.start(client.process, world.weather.pause())
            world.clock.run()
            _rest(world, clients)
        except DoesNotRest as found:
            world.wrong.append(str(found))
        except Exception as found:
            lines = traceback.format_exc().splitlines()[-9:] if traced else ()
            world.wrong += [f"{type(found).__name__}: {found}", *lines]
        finally:
            world.clock.end()
    wrong = (*dict.fromkeys((*world.wrong, *world.history.wrong)),)
    return Outcome(wrong, world.clock.steps, world.clock.events, tuple(world.clock.trace or ()))


def _rest(world: LogWorld, clients: list[Client]) -> None:
    """Lets the surviving clients go on where nothing happens to them, and compares what all of them know."""
    world.clock.note("all have ended; the others go on undisturbed")
    world.clock.now += 3 * DELETE_AFTER_MS
    for client in clients:
        if isinstance(client, Writer) and client.appender is not None:
            try:
                client.appender.flush()
                client.append()
            except Unavailable as why:
                world.wrong.append(f"{client.name} cannot append at rest: {why}")
        if isinstance(client, Writer) and client.keeps_ms is not None:
            world.history.expiries.append((world.clock.now - client.keeps_ms, None))
    newcomer = Reader(world, "newcomer")
    newcomer.reader, newcomer.positions = FilesReader(world.location), {0: 0, 1: 0}
    first, ends = newcomer.reader.first_offsets(), newcomer.reader.end_offsets()
    world.history.ended("the newcomer", list(world.history.ends), ends)
    world.history.ended("a new writer", list(world.history.ends), FilesAppender(world.location).end_offsets())
    found = {bucket: newcomer.reader.read(bucket, first[bucket], end) for bucket, end in ends.items()}
    rows = {bucket: table.column("value").to_pylist() for bucket, table in found.items()}
    for bucket, table in found.items():
        world.history.read("the newcomer", bucket, first[bucket], table.column("offset").to_pylist(), rows[bucket])
        if len(rows[bucket]) != ends[bucket] - first[bucket]:
            world.wrong.append(
                f"bucket {bucket} has {len(rows[bucket])} records from {first[bucket]} to {ends[bucket]}"
            )
    world.history.check_times(first, {b: table.column("timestamp_ms").to_pylist() for b, table in found.items()})
    for client in clients:
        if isinstance(client, Reader) and client.reader is not None:
            for bucket, end in ends.items():
                for _ in range(2):  # once more if the position has expired
                    while client.positions[bucket] < end and client.read(bucket, None):
                        pass
                if client.positions[bucket] != end:
                    world.wrong.append(f"{client.name} stays at {bucket}:{client.positions[bucket]}, not at {end}")
    world.history.check_rest(first, rows)
    segments = SegmentChain(world.location)
    for _ in range(2):  # those of writers with right clocks, and those of the future
        segments.expire(int(world.clock.now) + 1)
    if segments.floor.number != max(0, segments.newest()):  # a log that was never written has no segment
        world.wrong.append(f"segments from {segments.floor.number} on never expire, up to {segments.newest()}")

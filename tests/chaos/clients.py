"""The processes of a run of many writers: batch writers, streaming writers, readers, tails of the log, a compactor, and
one that rolls the table back. Some have a clock that is a month ahead or behind.

usage: python -m chaos.clients ROLE NAME SETTINGS  (SETTINGS is a JSON file; a line on stdin says: come to an end)

Each keeps a journal of what it asked and was answered. A streaming writer makes the protocol's calls as Spark's sink
does (``spark/write/stream_writer.py``), with a checkpoint of its own.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.journal import DECIDE, FOLDED, SCAN, TAIL, UNION, Journal
from chaos.registers import Folded, Row, batch_of, found, rows_of
from lakelog import connect
from lakelog.errors import Fenced, LakelogError
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.lake.table import Table
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal_thread import sealer_for
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write import restore
from lakelog.table.write.table_writer import TableWriter
from register_history import FAILED, OK, UNKNOWN, Value

_REFUSED = ("none of these rows are in the table", "its rows were aborted")
"""So says an error after which a write is surely not in the table."""
_STREAM_VALUES, _EPOCH_VALUES, _PROCESS_VALUES = 10**12, 10**3, 10**6


_WRONG_CLOCKS: Final = 0.15
"""Share of the processes whose clock is wrong."""
_MONTH_NS: Final = 31 * 24 * 3_600_000_000_000


@dataclass(frozen=True)
class WrongTime:
    """The module ``time`` of a machine whose clock is wrong."""

    ahead_ns: int

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time_ns(self) -> int:
        """``time.time_ns``."""
        return time.time_ns() + self.ahead_ns


@dataclass
class Client:
    """One process: its table, its dice, its journal, and whether it was told to end."""

    given: dict[str, Any]
    name: str

    def __post_init__(self) -> None:
        directory = Path(self.given["directory"])
        self.number = next_number(directory / "numbers")
        self.dice = random.Random(f"{self.given['seed']}/{self.name}/{self.number}")
        if self.dice.random() < _WRONG_CLOCKS:
            clock.time = WrongTime(self.dice.choice((-_MONTH_NS, _MONTH_NS)))  # type: ignore[assignment]
        self.lake = connect(warehouse=self.given["warehouse"])
        self.table: Table = self.lake.table("db.t")
        self.keyed = bool(self.table.primary_keys)
        self.keys = range(self.given["keys"])
        self.journal = Journal(directory / "journals", self.name)
        self.told = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), self.told.set()), daemon=True).start()

    def pause(self, most_s: float) -> None:
        """Waits at random, but not when told to end."""
        self.told.wait(most_s * self.dice.random())

    def read(self, options: Mapping[str, str] | None = None) -> dict[int, int]:
        """A batch read, by key (without one by value); noted in the journal."""
        began = time.monotonic_ns()
        rows = found(self.table.scan(options=options).to_arrow(), self.keyed)
        self.journal.read(UNION if options else SCAN, began, rows)
        return rows

    def changes(self, values: Callable[[], int], known: Mapping[int, int]) -> tuple[list[Row], dict[int, Value]]:
        """Changes of some keys, and what the keys hold behind them."""
        rows: list[Row] = []
        after: dict[int, Value] = {}
        for key in self.dice.sample(self.keys, self.dice.choice((1, 1, 2, 4))):
            value = values()
            if not self.keyed:
                rows.append(("+I", value, value))
                after[value] = value
            elif self.dice.random() < 0.2:
                rows.append(("-D", key, known.get(key, 0)))
                after[key] = None
            elif key in known:
                rows += [("-U", key, known[key]), ("+U", key, value)]
                after[key] = value
            else:
                rows.append(("+I", key, value))
                after[key] = value
        return rows, after


def write(client: Client) -> None:
    """Batch writes, one after the other: inserts, updates, deletes; some read the table first."""
    numbers = iter(range(client.number * _PROCESS_VALUES, (client.number + 1) * _PROCESS_VALUES))
    writes = 0
    while not client.told.is_set():
        writes += 1
        who, is_committing = f"{client.journal.name}/{writes}", False
        try:
            known = client.read() if client.keyed and client.dice.random() < 0.4 else {}
            rows, after = client.changes(lambda: next(numbers), known)
            client.journal.begin(who, after)
            with client.table.writer() as writer:
                cut = client.dice.choice((0, 0, len(rows) // 2))
                if cut:
                    writer.write(batch_of(rows[:cut]))
                    writer.flush()
                    client.pause(0.3)
                writer.write(batch_of(rows[cut:]))
                if client.dice.random() < 0.05:
                    raise Abandoned
                client.journal.say(DECIDE, who)
                is_committing = True
                writer.commit()
                client.journal.say(OK, who)
        except Abandoned:
            client.journal.say(FAILED, who, "abandoned")
        except LakelogError as failure:
            refused = not is_committing or (isinstance(failure, Fenced) and any(t in str(failure) for t in _REFUSED))
            client.journal.say(FAILED if refused else UNKNOWN, who, f"{type(failure).__name__}: {failure}"[:500])
        client.pause(0.3)


class Abandoned(Exception):
    """The user's code has failed amid a write."""


def stream(client: Client) -> None:
    """Micro-batches of one query; what each holds follows from its number, so that every run repeats it."""
    table = client.table.logical
    checkpoint = Path(client.given["directory"]) / "streams" / client.name
    checkpoint.mkdir(parents=True, exist_ok=True)
    number = int(client.name.lstrip("stream"))
    epoch = max((int(p.name) for p in checkpoint.iterdir()), default=-1) + 1
    run = new_uuid()
    while not client.told.is_set():
        who, luck = f"{client.name}/{epoch}", client.dice
        client.dice = random.Random(f"{client.given['seed']}/{client.name}/{epoch}")
        first = (number + 1) * _STREAM_VALUES + epoch * _EPOCH_VALUES
        rows, after = client.changes(iter(range(first, first + _EPOCH_VALUES)).__next__, {})
        client.dice = luck
        client.journal.begin(who, after)
        results = []
        for lane in range(2):
            part = batch_of([row for row in rows if row[1] % 2 == lane])
            if not should_write_epoch(table, client.name, epoch, run):
                results.append(AttemptResult(client.name, epoch, "", row_count=part.num_rows, replay=True))
                continue
            while True:
                task = TaskWriter(table, client.name, epoch, lane)
                task.write(part)
                if luck.random() > 0.1:
                    break
                task.close()  # a task that fails behind its last row, and is tried again
            results.append(task.finish())
        client.journal.say(DECIDE, who)
        sealer = sealer_for(table, client.name)
        sealer.committer.begin_run(run)
        sealer.committer.commit(epoch, results)
        client.journal.say(OK, who)
        sealer.notify()
        sealer.committer.check_alone()
        with (checkpoint / f"{epoch}").open("x") as file:  # fails when another process goes on with this checkpoint
            os.fsync(file.fileno())
        epoch += 1
        client.pause(0.2)


def read(client: Client) -> None:
    """Batch reads, of the files and of both stores."""
    while not client.told.is_set():
        try:
            client.read({"read.mode": "union"} if client.dice.random() < 0.4 else None)
        except LakelogError as failure:
            client.journal.say("failure", client.name, f"{type(failure).__name__}: {failure}"[:500])
        client.pause(0.8)


def tail(client: Client) -> None:
    """Follows the log; told to end it reads on to the end, and notes what all of it adds up to."""
    transactional = client.name.startswith("transactional")
    options = {"log.consistency": "transactional" if transactional else "eventual"}
    begun = position = client.dice.choice(("earliest", "latest-full"))
    folded = Folded(client.keyed)
    while True:
        is_last = client.told.is_set()
        try:
            tail = client.table.tail(position, "latest" if is_last else client.told, options=options)
            try:
                for batch in tail:
                    rows = rows_of(batch)
                    folded.add(rows)
                    client.journal.say(TAIL, client.name, rows if transactional else len(rows))
            finally:
                position = tail.position
            if is_last:
                break
        except LakelogError as failure:
            client.journal.say("failure", client.name, f"{type(failure).__name__}: {failure}"[:500])
            client.told.wait(0.2)
    client.journal.say(FOLDED, f"{client.journal.name} from {begun}", sorted(folded.table().items()))


def compact(client: Client) -> None:
    """Compacts the table again and again."""
    while not client.told.is_set():
        try:
            client.table.compact(full=client.dice.random() < 0.3)
        except LakelogError as failure:
            client.journal.say("failure", client.name, f"{type(failure).__name__}: {failure}"[:500])
        client.pause(3)


def roll_back(client: Client) -> None:
    """Rolls a table with a key back to one of its last snapshots, again and again."""
    rollbacks = 0
    while not client.told.is_set():
        client.pause(6)
        rollbacks += 1
        who, written = f"{client.journal.name}/{rollbacks}", dict[int, Value]()

        class Noted(TableWriter):
            """The writer of its rows, which are noted before they are committed."""

            def write(self, rows: Any, *given: Any, **options: Any) -> None:
                for kind, key, value in rows_of(rows):
                    if kind != "-U":
                        written[key] = None if kind == "-D" else value  # noqa: B023
                super().write(rows, *given, **options)

            def commit(self, *given: Any, **options: Any) -> Any:
                client.journal.begin(who, written)  # noqa: B023
                client.journal.say(DECIDE, who)  # noqa: B023
                return super().commit(*given, **options)

        restore.TableWriter = Noted  # type: ignore[misc]
        try:
            ids = client.table.logical.store.snapshots.chain_ids()
            client.table.rollback_to(client.dice.choice(ids[-12:]))
            client.journal.say(OK, who)
        except LakelogError as failure:
            client.journal.say(UNKNOWN, who, f"{type(failure).__name__}: {failure}"[:500])


def last(client: Client) -> None:
    """One more write of one key, by a process that comes when all others have ended."""
    value = client.number * _PROCESS_VALUES
    key = client.keys[0] if client.keyed else value
    client.journal.begin("last", {key: value})
    with client.table.writer() as writer:
        writer.write(batch_of([("+I", key, value)]))
        client.journal.say(DECIDE, "last")
    client.journal.say(OK, "last")
    client.lake.close()


def next_number(directory: Path) -> int:
    """A number for each process of a run."""
    directory.mkdir(exist_ok=True)
    number = 1
    while True:
        try:
            (directory / str(number)).touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


ROLES: dict[str, Callable[[Client], None]] = {
    "writer": write,
    "stream": stream,
    "reader": read,
    "tail": tail,
    "compactor": compact,
    "rollback": roll_back,
    "last": last,
}


if __name__ == "__main__":
    ROLES[sys.argv[1]](Client(json.loads(Path(sys.argv[3]).read_text(encoding="utf-8")), sys.argv[2]))

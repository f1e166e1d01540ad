"""Statements that replace rows of a table without a key: UPDATE, DELETE, MERGE, INSERT OVERWRITE and TRUNCATE; and the
compactions of other engines, which move the rows to other files meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import protocol_calls as calls
import pyarrow as pa
from simulated_rows import Row, batch_of
from simulated_table import SimulatedTable, World

from lakelog.errors import CommitUnknown, LakelogError
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.read.plan import BucketKey
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import carried_state
from register_history import OK, Write

if TYPE_CHECKING:
    from simulated_clients import Clients

_TRIES = 3


class Replacements:
    """Runs statements, each in a process of its own; after a death or failure another one takes its place."""

    def __init__(self, clients: Clients) -> None:
        self._clients, self._world = clients, clients.world
        self._scheduler, self._dice = clients.scheduler, clients.dice

    def life(self, name: str) -> None:
        """Runs a few statements, one after the other."""
        dice = self._dice
        for number in range(dice.randint(1, _TRIES)):
            who = f"{name}.{number}"
            statement = dice.choice((self._rewrite, self._rewrite, self._rewrite, self._overwrite, self._truncate))
            job = self._clients.spawn(who, partial(self._run, who, statement))
            self._scheduler.wait_until(lambda: job.is_done or job.stopped_until > self._scheduler.now + 1000)  # noqa: B023
            self._scheduler.sleep(dice.choice((0.0, 0.1, 1.0)) * dice.random())

    def later(self, name: str) -> None:
        """Runs maintenance and further statements while earlier processes are suspended or dead."""
        clients, dice = self._clients, self._dice
        for number in range(dice.randint(1, 4)):
            self._scheduler.sleep(self._scheduler.lease_s * (0.3 + dice.random()))
            who, table = f"{name}.{number}", clients.some_table()
            chore = dice.choice((None, None, self._rewrite, self._overwrite))

            def body(table: SimulatedTable = table, chore: Any = chore, who: str = who) -> None:
                if chore is None:
                    calls.maintain(clients.handle(table))
                else:
                    chore(who, table, clients.handle(table))

            clients.spawn(who, body)

    def _run(self, name: str, statement: Callable[[str, SimulatedTable, DynamicTable], None]) -> None:
        table = self._clients.some_table()
        statement(name, table, self._clients.handle(table))

    def _rewrite(self, name: str, table: SimulatedTable, handle: DynamicTable) -> None:
        """UPDATE, DELETE or MERGE: reads files with rows that match, and replaces them with what stays and is new."""
        dice, world, history = self._dice, self._world, table.history
        ids = [key for key in self._clients.keys if dice.random() < 0.6] or [dice.choice(self._clients.keys)]
        names, invoked = calls.files_with(handle, ids), history.tick()
        if not names:
            return
        found = calls.rows_of_files(handle, names)
        values = found.column("v").to_pylist()
        if not world.is_dropped(table):
            history.read(name, invoked, {v: v for v in values}, values)
        matches = [key in ids and dice.random() < 0.8 for key in found.column("id").to_pylist()]
        removed = found.filter(pa.array(matches, pa.bool_()))
        rows: list[Row] = []
        if dice.random() < 0.5:
            rows += [("+I", key, world.new_value()) for key in removed.column("id").to_pylist()]
        if dice.random() < 0.2:
            rows.append(("+I", dice.choice(self._clients.keys), world.new_value()))
        write = history.invoke(name)
        write.tries.append(dict.fromkeys(removed.column("v").to_pylist()) | {v: v for _, _, v in rows})
        user = f"statement-{name}"

        def commit() -> None:
            kept = found.filter(pa.array([not match for match in matches], pa.bool_()))
            parts = [*kept.to_batches(), batch_of(world, handle, rows)]
            calls.commit_rewrite(handle, user, [calls.rewritten(handle, user, parts)], names)

        self._finish(write, table, handle, commit)

    def _overwrite(self, name: str, table: SimulatedTable, handle: DynamicTable) -> None:
        """INSERT OVERWRITE: asks again if the outcome is unknown."""
        rows: list[Row] = [
            ("+I", key, self._world.new_value()) for key in self._clients.keys[: self._dice.randint(1, 2)]
        ]
        write = table.history.invoke(name)
        write.clears = True
        write.tries.append({v: v for _, _, v in rows})

        def commit() -> None:
            with calls.open_overwrite(handle) as writer:
                writer.write(batch_of(self._world, handle, rows))
                for _ in range(_TRIES):
                    try:
                        writer.commit()
                        return
                    except CommitUnknown:
                        self._scheduler.sleep(self._dice.choice((0.0, 0.1, 1.0)) * self._dice.random())
                writer.commit()

        self._finish(write, table, handle, commit)

    def _truncate(self, name: str, table: SimulatedTable, handle: DynamicTable) -> None:
        """TRUNCATE."""
        write = table.history.invoke(name)
        write.clears = True
        write.tries.append({})
        self._finish(write, table, handle, lambda: calls.empty(handle))

    def _finish(self, write: Write, table: SimulatedTable, handle: DynamicTable, commit: Callable[[], None]) -> None:
        """Commits a statement and records its outcome."""
        events = self._scheduler.events
        try:
            commit()
        except LakelogError as failure:
            outcome = calls.outcome_of_replacement(failure)
            events[f"replacements, {outcome}"] += 1
            table.history.respond(write, outcome)
            raise
        events["replacements"] += 1
        table.history.respond(write, OK)


def commit_of_others(world: World, handle: DynamicTable) -> None:
    """Commits a compaction, which preserves the log state, or as another engine, which does not."""
    store, carries = handle.store, world.dice.random() < 0.5
    request = CommitRequest("others", 0, "COMPACT", allow_empty=True, first_try=True)
    prepare = (lambda latest: carried_state(store, latest)) if carries else None
    files = _compacted(world, handle) if world.case.replaces and world.dice.random() < 0.7 else ()
    store.commit(replace(request, prepare=prepare, files=files))
    if not carries and world.dice.random() < 0.7:
        calls.expire(handle, 1)


def _compacted(world: World, handle: DynamicTable) -> tuple[BucketFiles, ...]:
    """Some files of each bucket as one file."""
    warehouse = handle.store.warehouse  # type: ignore[attr-defined]
    held: dict[BucketKey, list[DataFileMeta]] = {}
    for entry in handle.store.live_entries(handle.store.latest_snapshot()):
        if world.dice.random() < 0.8:
            held.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    made = []
    for at, files in held.items():
        rows = [row for file in files for row in warehouse.rows_of(file)]
        new = warehouse.new_file(rows, max(file.schema_id for file in files))
        world.scheduler.pause("compact")
        world.scheduler.events["compactions"] += 1
        made.append(BucketFiles(*at, handle.schema.num_buckets, (new,), tuple(files)))
    return tuple(made)

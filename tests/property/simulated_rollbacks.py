"""Rollbacks to snapshots of a table, beside everything else that works on it (RFC 23)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import protocol_calls as calls
from simulated_warehouse import Warehouse

from lakelog.errors import CommitConflict, LakelogError
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.snapshot import Snapshot
from register_history import OK

if TYPE_CHECKING:
    from simulated_clients import Clients

_ROUNDS = 20


class Rollbacks:
    """Rolls tables back, each time in a process of its own."""

    def __init__(self, clients: Clients) -> None:
        self._clients, self._world = clients, clients.world
        self._scheduler, self._dice = clients.scheduler, clients.dice

    def life(self, name: str) -> None:
        """Runs a few rollbacks, one after the other."""
        dice = self._dice
        for number in range(dice.randint(1, 3)):
            self._scheduler.sleep(dice.choice((0.0, 0.3, 2.0)) * dice.random())
            who = f"{name}.{number}"
            job = self._clients.spawn(who, partial(self._run, who))
            self._scheduler.wait_until(lambda: job.is_done or job.stopped_until > self._scheduler.now + 1000)  # noqa: B023

    def _run(self, name: str) -> None:
        world, table = self._world, self._clients.some_table()
        handle, warehouse = self._clients.handle(table), table.warehouse
        if not warehouse.live:
            return
        number, write = self._dice.choice(sorted(warehouse.live)), table.history.invoke(name)
        write.tries.append({})
        if not world.case.keyed:
            rows = [row for files in warehouse.live[number].values() for f in files for row in warehouse.rows_of(f)]
            write.clears, write.tries = True, [{row[3]: row[3] for row in rows}]
        try:
            calls.roll_back(handle, number, write.tries[-1])
        except LakelogError as failure:
            self._scheduler.events["rollbacks that failed"] += 1
            outcome = calls.outcome_of if world.case.keyed else calls.outcome_of_replacement
            table.history.respond(write, outcome(failure))
            raise
        self._scheduler.events["rollbacks"] += 1
        table.history.respond(write, OK)


@dataclass
class SimulatedState:
    """As ``RestoredState``: the files of a state, of which those that are not live get copies."""

    warehouse: Warehouse
    buckets: int
    state: Snapshot

    def commit(
        self, user: str, latest: Callable[[], Snapshot | None], commit: Callable[[CommitRequest], Snapshot]
    ) -> Snapshot:
        """Makes the state the newest one. Raises as ``RestoredState.commit``."""
        copies: dict[str, DataFileMeta] = {}
        for left in reversed(range(_ROUNDS)):
            newest = self.warehouse.files_at(latest())
            live = {f.file_name for files in newest.values() for f in files}
            changes, kept = [], set()
            for at, files in self.warehouse.files_at(self.state).items():
                kept |= {f.file_name for f in files} & live
                for file in files:
                    if file.file_name not in live and file.file_name not in copies:
                        copies[file.file_name] = self.warehouse.new_file(self.warehouse.rows_of(file), file.schema_id)
                new = tuple(copies[f.file_name] for f in files if f.file_name not in live)
                if new:
                    changes.append(BucketFiles(*at, self.buckets, new))
            over = Overwrite(None, frozenset(kept))
            request = CommitRequest(
                user, 0, "OVERWRITE", tuple(changes), overwrite=over, allow_empty=True, first_try=True
            )
            try:
                return commit(request)
            except CommitConflict:
                if not left:
                    raise
        raise AssertionError

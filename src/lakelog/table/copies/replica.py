"""The replica of a table: a table in another warehouse that follows the snapshots of its source (RFC 26).

A replica has an identity, schemas and snapshots of its own. Each snapshot has the files of one of the source, under the
same names, so no row is read or written. It has no log, and it is read only until ``promote`` (table feature
``replica``). Everything that it has is created if absent, so two processes may copy at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import AlreadyExists, Fenced, InvalidRequest, NotFound, UnsupportedFeature
from lakelog.filestore.gc.reachability import GcRoot
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.metadata.snapshots import EARLIEST, LATEST
from lakelog.io.names import new_uuid
from lakelog.options.features import FEATURES_KEY, REPLICA, TableFeatures
from lakelog.options.log import LOG_ENABLED, LOG_TYPE
from lakelog.options.option import Options
from lakelog.options.table import TABLE_ID
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import read_as
from lakelog.table.copies.file_copies import FileCopies, StateFiles
from lakelog.table.copies.restore import without_log
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState, state_at
from lakelog.table.write.restore import restore_copied

REPLICA_OF: Final = "lakelog.replica-of"
"""The key in a replica's schemas of the identity of its source."""
REPLICA_LOG: Final = "lakelog.replica-log"
"""The key of the log system of the source, which the promoted table has, too; absent without a log."""
SOURCE_SNAPSHOT: Final = "lakelog.source-snapshot"
"""The key in the properties of a replica's snapshot of the number of the source's."""


def open_replica(catalog: Catalog, identifier: Identifier, source: DynamicTable) -> DynamicTable:
    """The replica of a table by its name, created if it does not exist.

    Raises InvalidRequest for a replica of another table, AlreadyExists for a table that is no replica, Fenced for one
    that was promoted, UnsupportedFeature for a catalog whose server makes the snapshots.
    """
    if catalog.commits_by_server:
        raise UnsupportedFeature(f"{identifier} cannot be a replica: its catalog server makes the snapshots")
    catalog.ensure_database(identifier.database)
    with contextlib.suppress(NotFound):
        return _checked(DynamicTable(catalog.load_table(identifier)), source)
    first = _schema(source, min(source.store.branches.schema_ids(MAIN_BRANCH)))
    schema = _as_replica(first, source, new_uuid())
    return _checked(DynamicTable(catalog.create_table(identifier, schema, if_not_exists=True)), source)


@dataclass
class Replica:
    """A replica and its source, for one thread.

    ``snapshot`` is the source's newest snapshot that the replica has, and ``names`` are the files that it was copied
    with.
    """

    source: DynamicTable
    table: DynamicTable
    snapshot: int = 0
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        newest = self.table.store.latest_snapshot()
        self.snapshot = 0 if newest is None else _source_number(newest, self.table)

    @property
    def consumer(self) -> str:
        """The name by which the source keeps the snapshots that the replica has not copied yet."""
        return f"replica-{self.table.identity.id}"

    def copy_next(self) -> Iterator[Snapshot]:
        """Copies what the source has committed since; yields each snapshot of the source once the replica has it.

        1 check that the replica is still one · 2 copy new schemas · 3 copy the files of the next snapshot that the
        replica lacks · 4 create its snapshot. If the source has expired snapshots in between, its newest state is
        committed as one that replaces all rows. A crash leaves files that the next call uses. Raises Fenced once the
        replica is promoted or written by others, TableReplaced, NotFound (the source expires too fast), Unavailable.
        """
        self.source = self.source.with_newest_schema()
        newest = self.source.store.latest_snapshot()
        if newest is None or newest.id == self.snapshot:
            self._copy_schemas()
            return
        if newest.id < self.snapshot:
            raise Fenced(
                f"table {self.source.name} is at snapshot {newest.id}, before {self.snapshot}, which its replica "
                f"{self.table.name} has: it is an older copy. Drop the replica, and begin a new one"
            )
        while self.snapshot < newest.id:
            self._copy_schemas()
            snapshot = self._follow(newest)
            self.snapshot = snapshot.id
            yield snapshot

    def keep_source(self) -> None:
        """Notes at the source which snapshots the replica has, so that expiry keeps the others. Raises Unavailable."""
        if self.snapshot:
            self.source.store.consumers.record(self.consumer, self.snapshot + 1)

    def _follow(self, newest: Snapshot) -> Snapshot:
        """Copies the next snapshot, or the newest one if the next one has expired or there is none yet."""
        previous = self.table.store.latest_snapshot()
        if previous is not None:
            with contextlib.suppress(NotFound):
                following = self.source.store.snapshots.read(self.snapshot + 1)
                self._create(previous.id + 1, self._copied(GcRoot("", following, follows=True)))
                return following
        copied = self._copied(GcRoot("", newest))
        if previous is None:
            self._create(newest.id, copied)
        else:
            self._replace(previous, newest, copied)
        return newest

    def _replace(self, previous: Snapshot, newest: Snapshot, copied: Snapshot) -> None:
        """Commits a state of the source in place of all rows. Raises Fenced if another snapshot comes first."""
        self._check_marked()

        def check(latest: Snapshot | None) -> dict[str, str]:
            if latest is None or latest.id != previous.id:
                raise self._fenced()
            return {SOURCE_SNAPSHOT: str(newest.id)}

        restore_copied(unmarked(self.table), copied, check)

    def _copied(self, root: GcRoot) -> Snapshot:
        """Copies the files of a snapshot of the source; returns it as one of the replica.

        That has no writers and offsets, which a new log will have.
        """
        snapshot = root.snapshot
        state = LogState(rejected=state_at(self.source.store, snapshot).rejected)
        names = StateFiles(self.source).of(root, state)
        copies = FileCopies(self.source.io, self.source.path, self.table.io, self.table.path)
        copies.copy([name for name in names - self.names if not copies.has(name)])
        self.names = frozenset(names)
        identity = {TABLE_ID: self.table.identity.text, SOURCE_SNAPSHOT: str(snapshot.id)}
        return replace(snapshot, properties={**state.to_properties(), **identity})

    def _create(self, number: int, snapshot: Snapshot) -> None:
        """Creates a snapshot of the replica. Raises Fenced if there is another one of this number."""
        self._check_marked()
        store, own_snapshot = self.table.store, replace(snapshot, id=number)
        self.table.check_identity()
        path = store.paths.snapshot(number)
        if (
            not self.table.io.create(path, own_snapshot.to_json())
            and self.table.io.read(path) != own_snapshot.to_json()
        ):
            raise self._fenced()
        store.snapshots.write_hint(LATEST, number)
        if not self.snapshot:
            store.snapshots.write_hint(EARLIEST, number)

    def _copy_schemas(self) -> None:
        """Creates the schemas that the source has and the replica lacks, in order. Raises Fenced."""
        self._check_marked()
        paths, identity = self.table.store.paths, self.table.identity.text
        numbers = self.source.store.branches.schema_ids(MAIN_BRANCH)
        there = set(self.table.store.branches.schema_ids(MAIN_BRANCH))
        for number in (number for number in numbers if number not in there):
            schema = _as_replica(_schema(self.source, number), self.source, identity)
            path = paths.schema_file(number)
            if not self.table.io.create(path, schema.to_json()) and self.table.io.read(path) != schema.to_json():
                raise self._fenced()
        self.table = self.table.with_newest_schema()

    def _check_marked(self) -> None:
        self.table = self.table.with_newest_schema()
        if REPLICA_OF not in self.table.schema.options:
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(
            f"table {self.table.name} is no longer a replica of {self.source.name}: it was promoted, or written by "
            "another program. Nothing was copied; stop this process"
        )


def unmarked(table: DynamicTable) -> DynamicTable:
    """A handle of a replica for its own commits."""
    options = {key: value for key, value in table.schema.options.items() if key != FEATURES_KEY}
    return table.with_schema(replace(table.schema, options=options))


def _schema(table: DynamicTable, number: int) -> TableSchema:
    return read_as(table.io, table.store.paths.schema_file(number), TableSchema.from_json)


def _as_replica(schema: TableSchema, source: DynamicTable, identity: str) -> TableSchema:
    """A schema of the source as one of the replica: with its identity, without a log, for readers only."""
    features, before = TableFeatures.of(schema.options), Options(schema.options)
    options = {
        **{key: value for key, value in without_log(schema).items() if key != LOG_TYPE.key},
        TABLE_ID: identity,
        REPLICA_OF: source.identity.text,
        LOG_ENABLED.key: "false",
        FEATURES_KEY: features.with_feature(REPLICA).to_text(),
    }
    if before.need(LOG_ENABLED):
        options[REPLICA_LOG] = before.need(LOG_TYPE)
    return replace(schema, options=options)


def _checked(table: DynamicTable, source: DynamicTable) -> DynamicTable:
    options = table.schema.options
    if options.get(REPLICA_OF) == source.identity.text:
        return table
    if REPLICA_OF in options:
        raise InvalidRequest(
            f"table {table.name} is the replica of another table than {source.name}, or the source was created again "
            "since: choose another name, or drop the replica"
        )
    raise AlreadyExists(f"table {table.name} exists and is no replica: choose another name for the replica")


def _source_number(snapshot: Snapshot, table: DynamicTable) -> int:
    for one in table.store.snapshots.backwards(snapshot):
        number = (one.properties or {}).get(SOURCE_SNAPSHOT, "")
        if number.isdecimal():
            return int(number)
    raise Fenced(f"table {table.name} has no snapshot of a source: it was written by another program")

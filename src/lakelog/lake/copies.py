"""The methods of ``Lake`` that copy tables: backup, restore, replica."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakelog.catalog.names import FIRST
from lakelog.options.boundary import Public
from lakelog.options.notebook import ViewList
from lakelog.sql.parse import Session
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.table.copies.backup import back_up, verify
from lakelog.table.copies.backup_store import BackupPoint, BackupStore
from lakelog.table.copies.replica import Replica, open_replica
from lakelog.table.copies.replication import ReplicaProgress, Replication
from lakelog.table.copies.restore import pick_point, restore_into
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.open import identifier_of, open_catalog
from lakelog.table.read.time_travel import millis_of


class LakeCopies(Public, ABC):
    """Backups and replicas of tables."""

    _tables: CatalogTables
    _session: Session

    @abstractmethod
    def _open(self, name: str, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table of a name."""

    def backup(
        self,
        name: str,
        to: str,
        *,
        keep: int | None = None,
        tag: str | None = None,
        files_only: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> BackupPoint:
        """Copies the newest state of a table, or that of a tag, into a directory; returns the new point of the backup.

        ``to`` is a path or a URI, one directory per table. ``storage_options`` are those of its storage, by default
        those of this lake. The state has every row that is committed when the call begins; writers go on meanwhile.
        Only files that no earlier point has are copied, with their checksums. ``keep`` is the number of newest points
        that stay. Rows that are in the log alone (``emit.mode`` = ``log``) are refused, or left out with
        ``files_only``. Raises InvalidRequest for the backup of another table, UnsupportedFeature, NotFound,
        Unavailable.

        ```python
        lake.backup("shop.orders", "s3://backups/orders", keep=30)
        ```
        """
        return back_up(self._open(name), self._backup(to, storage_options), keep, tag, files_only)

    def backup_points(
        self, backup: str, *, check: bool = False, storage_options: Mapping[str, str] | None = None
    ) -> Sequence[BackupPoint]:
        """The points of a backup, the oldest first. With ``check`` all files are read and compared first.

        Raises NotFound if there is no backup, Corrupt for a damaged one.
        """
        store = self._backup(backup, storage_options)
        store.table()
        return ViewList(verify(store) if check else store.points())

    def restore(
        self,
        backup: str,
        name: str,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        in_place: bool = False,
        files_only: bool = False,
        options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> BackupPoint:
        """Restores a point of a backup as the new table ``name``; returns the point.

        ``snapshot_id``, ``tag`` or ``timestamp`` (the newest point at that time) choose the point, by default the
        newest one. The new table has an identity and an empty log of its own, so writers, readers and checkpoints of
        the old table are refused. ``options`` replace table options, such as the address of the log.

        With ``in_place`` the table that was backed up gets the rows of the point instead, as a rollback does: its
        identity, writers and checkpoints go on, and the log gets the difference unless ``files_only``. Raises NotFound,
        AlreadyExists, InvalidRequest, InvalidOption, Corrupt for a damaged backup, CommitConflict.

        ```python
        lake.restore("s3://backups/orders", "shop.orders_yesterday", timestamp="2026-11-28 12:00:00")
        ```
        """
        store = self._backup(backup, storage_options)
        point = pick_point(store, snapshot_id, tag, None if timestamp is None else millis_of(timestamp))
        if in_place:
            restore_into(self._open(name), store, point, files_only)
        else:
            table_options = canonical_options(options or {}, "table")
            self._tables.restore(self._session.identifier(name), store, point, table_options)
        return point

    def replicate(
        self,
        name: str,
        to: str,
        *,
        replica: str | None = None,
        stop: str | threading.Event | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Iterator[ReplicaProgress]:
        """Keeps a replica of a table in the warehouse ``to`` close to it; yields after each step.

        The replica has the same name unless ``replica`` gives another one. It is created with the first call, and a
        later call continues. It can be read like any table, and nobody else writes it until ``promote``. The call runs
        without end, up to an event, or (``stop="latest"``) up to the current state of the table. While a storage does
        not answer, it tries again, and the lag grows. ``storage_options`` are those of the storage of ``to``, by
        default those of this lake. Raises AlreadyExists, InvalidRequest for the replica of another table, Fenced after
        a promotion.

        ```python
        for step in lake.replicate("shop.orders", "s3://second-region/warehouse"):
            print(step.snapshot, step.lag_s)
        ```
        """
        identifier = self._session.identifier(name)
        target = identifier_of(replica) if replica is not None else replace(identifier, catalog="")
        catalog = open_catalog(to, self._storage(storage_options))
        source = self._open(name)
        return Replication(Replica(source, open_replica(catalog, target, source))).run(stop)

    def promote(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """Makes a replica of this warehouse a table of its own, which can be written.

        It gets a new log if its source had one; ``options`` are table options to set, such as ``log-store.address``.
        The process that replicates is fenced: it cannot commit another snapshot. Writers and checkpoints of the source
        are refused here. Stop the writers of the source first if they still run: nothing that they commit afterwards is
        in the promoted table. Raises InvalidRequest for a table that is no replica.
        """
        self._tables.promote(self._session.identifier(name), canonical_options(options or {}, "table"))

    def _storage(self, storage_options: Mapping[str, str] | None) -> Mapping[str, str]:
        return self._tables.configs[FIRST].storage if storage_options is None else storage_options

    def _backup(self, place: str, storage_options: Mapping[str, str] | None) -> BackupStore:
        return BackupStore.at(place, self._storage(storage_options))

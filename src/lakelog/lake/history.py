"""The history of a table as a user holds it: snapshots, tags, branches, going back, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.filestore.gc.orphans import Orphans
from lakelog.options.option import parse_duration
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import Tag
from lakelog.table.health.health import TableHealth, table_health
from lakelog.table.maintenance.retention import (
    expire_partitions,
    expire_snapshots,
    fast_forward,
    remove_orphan_files,
    roll_back,
)
from lakelog.table.maintenance.run_history import Run, Runs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.system.history.history import snapshot_log


class TableHistory:
    """The methods of ``Table`` about what it was."""

    _table: DynamicTable

    def history(self, limit: int | None = None, before: int | None = None) -> pa.Table:
        """The snapshots as DESCRIBE HISTORY shows them, the newest first: version, timestamp, operation, rows …

        With ``limit`` only so many are read, with ``before`` those with a smaller number.
        """
        return snapshot_log(self._table, limit, before)

    def health(self, with_log: bool = True) -> TableHealth:
        """What the table needs and what waits, with a score from 0 to 100 and the figures behind them.

        A few small reads, no data file. ``with_log`` false leaves the log out. Raises Unavailable for the storage; a
        log that is away is told of.
        """
        return table_health(self._table, with_log)

    def runs(self, limit: int | None = None, kind: str | None = None) -> Sequence[Run]:
        """What ``lakelog optimize`` has done with the table, the newest first; the last 200 runs are kept."""
        return Runs(self._table.io, self._table.path).list(limit, kind)

    def tags(self) -> Sequence[Tag]:
        """The tags, by snapshot and name."""
        return self._table.store.tags.list()

    def create_tag(self, name: str, snapshot_id: int | None = None, retained: str | timedelta | None = None) -> Tag:
        """Names a snapshot (None: the newest), so that expiry leaves it alone, for ever or for a time (``'30 d'``).

        Raises AlreadyExists, NotFound.
        """
        return self._table.store.tags.create(name, snapshot_id, as_duration(retained))

    def delete_tag(self, name: str) -> None:
        """Deletes a tag and the files that only it kept. Raises NotFound."""
        self._table.store.tags.delete(name)

    def branches(self) -> Sequence[str]:
        """The names of the branches, without main."""
        return self._table.store.branches.list()

    def create_branch(self, name: str, tag: str | None = None, snapshot_id: int | None = None) -> None:
        """Makes a branch from a tag or a snapshot, or an empty one. Raises AlreadyExists, NotFound."""
        self._table.store.branches.create(name, tag, snapshot_id)

    def delete_branch(self, name: str) -> None:
        """Deletes a branch and the files that only it named. Raises NotFound."""
        self._table.store.branches.delete(name)

    def fast_forward(self, branch: str, files_only: bool = False) -> None:
        """Makes main what a branch is. A table with a log needs ``files_only``: the log stays as it is."""
        fast_forward(self._table, branch, files_only)

    def rollback_to(
        self,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp_ms: int | None = None,
        files_only: bool = False,
    ) -> Snapshot:
        """Makes an older state the newest: all that came after it goes. Returns its snapshot.

        A table with a log needs ``files_only``: rows of the log are not taken back. Raises NotFound, InvalidRequest.
        """
        return roll_back(self._table, snapshot_id, tag, timestamp_ms, files_only)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | timedelta | None = None,
        max_deletes: int | None = None,
    ) -> list[int]:
        """Removes old snapshots by the table's options, or by what is given instead; returns their ids."""
        return expire_snapshots(self._table, retain_max, retain_min, as_duration(older_than), max_deletes)

    def expire_partitions(
        self, expiration_time: str | timedelta | None = None, strategy: str | None = None
    ) -> list[dict[str, object]]:
        """Drops partitions that are older than ``partition.expiration-time``; returns their values."""
        return expire_partitions(self._table, as_duration(expiration_time), strategy)

    def remove_orphan_files(self, older_than: str | timedelta | None = None, dry_run: bool = False) -> Orphans:
        """Removes files that nothing names and that are older than a day (or than ``older_than``).

        A shorter time is safe only when no writer runs. With ``dry_run`` it only says which.
        """
        return remove_orphan_files(self._table, as_duration(older_than), dry_run)


def as_duration(given: str | timedelta | None) -> timedelta | None:
    """``'30 d'`` or a timedelta as a timedelta. Raises InvalidRequest."""
    if given is None or isinstance(given, timedelta):
        return given
    try:
        return parse_duration(given)
    except ValueError as why:
        raise InvalidRequest(str(why)) from None

"""The user-facing history of a table: snapshots, tags, branches, rollback, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lakelog.errors import InvalidRequest
from lakelog.filestore.gc.orphans import Orphans
from lakelog.lake.output.result import TableResult
from lakelog.options.boundary import Public
from lakelog.options.notebook import ViewList
from lakelog.options.option import parse_duration
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import Tag
from lakelog.table.commit.seal import named_snapshot
from lakelog.table.health.health import TableHealth, table_health
from lakelog.table.maintenance.retention import expire_snapshots, remove_orphan_files
from lakelog.table.maintenance.run_history import Run, Runs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.system.history import snapshot_log
from lakelog.table.write.partition_expiry import expire_partitions
from lakelog.table.write.restore import fast_forward, roll_back


class TableHistory(Public):
    """The methods of ``Table`` for its history."""

    _table: DynamicTable

    def history(self, limit: int | None = None, before: int | None = None) -> TableResult:
        """The snapshots as DESCRIBE HISTORY shows them, the newest first: version, timestamp, operation, rows …

        ``limit`` is the maximum number of snapshots to read. ``before`` limits them to smaller ids.

        ```pycon
        >>> t.history()["version"].to_pylist()
        [1]
        ```
        """
        return TableResult(snapshot_log(self._table, limit, before))

    def snapshots(self) -> Sequence[Snapshot]:
        """The snapshots that have not expired, the newest last. The system table ``t$snapshots`` has them as rows.

        ```pycon
        >>> [snapshot.commit_kind for snapshot in t.snapshots()]
        ['APPEND']
        ```
        """
        return ViewList(reversed(list(self._table.store.snapshots.backwards())))

    def health(self, with_log: bool = True) -> TableHealth:
        """The table's maintenance needs and backlog, with a score from 0 to 100 and its metrics.

        Reads a few small files and no data file. With ``with_log`` false it skips the log. Raises Unavailable for the
        storage; an unavailable log is reported in the result.
        """
        return table_health(self._table, with_log)

    def runs(self, limit: int | None = None, kind: str | None = None) -> Sequence[Run]:
        """The runs of ``lakelog optimize`` on the table, the newest first; the last 200 runs are kept."""
        return ViewList(Runs(self._table.io, self._table.path).list(limit, kind))

    def tags(self) -> Sequence[Tag]:
        """The tags, by snapshot and name."""
        return ViewList(self._table.store.tags.list())

    def create_tag(self, name: str, snapshot_id: int | None = None, retained: str | timedelta | None = None) -> Tag:
        """Tags a snapshot (None: the newest, with all commits) against expiry, without end or for a time (``'30 d'``).

        Raises AlreadyExists, NotFound.

        ```pycon
        >>> tag = t.create_tag("before", retained="30 d")
        >>> t.scan(tag="before").count()
        2
        ```
        """
        snapshot_id = named_snapshot(self._table, snapshot_id)
        return self._table.store.tags.create(name, snapshot_id, as_duration(retained))

    def delete_tag(self, name: str) -> None:
        """Deletes a tag and the files that only it referenced. Raises NotFound."""
        self._table.store.tags.delete(name)

    def branches(self) -> Sequence[str]:
        """The names of the branches, without main."""
        return self._table.store.branches.list()

    def create_branch(self, name: str, tag: str | None = None, snapshot_id: int | None = None) -> None:
        """Creates a branch from a tag or a snapshot, or an empty one. Raises AlreadyExists, NotFound."""
        self._table.store.branches.create(name, tag, snapshot_id)

    def delete_branch(self, name: str) -> None:
        """Deletes a branch and the files that only it referenced. Raises NotFound."""
        self._table.store.branches.delete(name)

    def fast_forward(self, branch: str, files_only: bool = False) -> None:
        """Makes the rows of a branch those of main, in a new snapshot; the branch stays.

        The log gets the difference, unless ``files_only``. Raises NotFound, InvalidRequest, UnsupportedFeature.
        """
        fast_forward(self._table, branch, files_only)

    def rollback_to(
        self,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp_ms: int | None = None,
        files_only: bool = False,
    ) -> Snapshot:
        """Makes the rows of an older state the newest ones, in a new snapshot; returns the snapshot of that state.

        Later snapshots, tags and the schema stay. The log gets the difference, unless ``files_only``: it then stays
        ahead of the files. A log of input rows whose merge engine cannot take rows back needs ``files_only``. Raises
        NotFound, InvalidRequest, CommitConflict.

        ```pycon
        >>> _ = t.delete("id = 1")
        >>> _ = t.rollback_to(snapshot_id=1)
        >>> t.count()
        2
        ```
        """
        return roll_back(self._table, snapshot_id, tag, timestamp_ms, files_only)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | timedelta | None = None,
        max_deletes: int | None = None,
    ) -> list[int]:
        """Expires old snapshots by the table's options, or by the arguments instead; returns their ids."""
        return expire_snapshots(self._table, retain_max, retain_min, as_duration(older_than), max_deletes)

    def expire_partitions(
        self, expiration_time: str | timedelta | None = None, strategy: str | None = None
    ) -> list[dict[str, object]]:
        """Drops partitions older than ``partition.expiration-time``; returns their values."""
        return expire_partitions(self._table, as_duration(expiration_time), strategy)

    def remove_orphan_files(self, older_than: str | timedelta | None = None, dry_run: bool = False) -> Orphans:
        """Removes unreferenced files that are older than a day (or than ``older_than``).

        A shorter time is safe only if no writer runs. With ``dry_run`` it only lists them.
        """
        return remove_orphan_files(self._table, as_duration(older_than), dry_run)


def as_duration(value: str | timedelta | None) -> timedelta | None:
    """``'30 d'`` or a timedelta as a timedelta. Raises InvalidRequest."""
    if value is None or isinstance(value, timedelta):
        return value
    try:
        return parse_duration(value)
    except ValueError as why:
        raise InvalidRequest(str(why)) from None

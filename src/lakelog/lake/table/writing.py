"""The methods of ``Table`` that write rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from lakelog.errors import InvalidRequest
from lakelog.options.boundary import Public
from lakelog.options.table import Missing, with_missing
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.rejected.rows import by_constraints
from lakelog.table.write.materializer import LogMaterializer
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, overwrite_writer, truncate
from lakelog.table.write.replay_rejected import ReplaySummary, replay_rejected
from lakelog.table.write.table_writer import TableWriter


class WriteFrame(Protocol):
    """Writes a batch DataFrame of Spark into a table."""

    def __call__(self, table: DynamicTable, frame: Any, overwrite: bool | Mapping[str, object]) -> RowCounts:
        """Returns the counts of the rows; raises the errors of ``Lake.write``."""


class TableWriting(Public):
    """The methods of ``Table`` that write rows."""

    _table: DynamicTable
    _write_frame: WriteFrame

    def write(
        self,
        rows: Any,
        overwrite: bool | Mapping[str, object] = False,
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> RowCounts:
        """Writes rows as one snapshot, columns by name; returns their counts: ``t.write(pl.DataFrame({"id": [1]}))``.

        ``rows`` are an Arrow table, anything with the Arrow stream interface (polars, pandas, DuckDB), or a batch
        DataFrame of Spark. In a table with a primary key they replace the rows of their keys, in another one they are
        added. A column ``_row_kind`` (+I, -U, +U, -D) makes them changes. ``overwrite`` and ``missing`` are those of
        ``writer``, ``options`` any write options. Raises InvalidSchema, InvalidRequest for a stream or rows of another
        type, and the errors of ``TableWriter.commit``, or those that Spark raises for failed tasks.

        ```pycon
        >>> t.write(pl.DataFrame({"id": [2], "_row_kind": ["-D"], "name": ["milk"]}))["num_deleted_rows"]
        1
        ```
        """
        self._table.check_rows_writable()
        table = self._with(with_missing(options, missing))
        if hasattr(type(rows), "isStreaming"):
            return self._write_frame(table, rows, overwrite)
        with (
            TableWriter(by_constraints(table), may_reject=True)
            if overwrite is False
            else overwrite_writer(table, overwrite)
        ) as writer:
            writer.write(rows)
        return writer.counts

    def append(self, rows: Any, options: Mapping[str, str] | None = None) -> RowCounts:
        """Adds rows to a table without a primary key: ``t.append(frame)``; otherwise as ``write``.

        Raises InvalidRequest for a table with a primary key, where rows replace those of their keys (``upsert``).

        ```pycon
        >>> log = lake.create_table("db.visits", {"page": "string"})
        >>> log.append(pl.DataFrame({"page": ["/", "/news"]}))["num_inserted_rows"]
        2
        ```
        """
        if self._table.schema.primary_keys:
            raise InvalidRequest(
                f"table {self._table.name} has a primary key, so its rows are replaced and not only added: write "
                "upsert(rows) or write(rows)"
            )
        return self.write(rows, options=options)

    def upsert(
        self, rows: Any, options: Mapping[str, str] | None = None, *, missing: Missing | None = None
    ) -> RowCounts:
        """Writes rows into a table with a primary key, in place of the rows of their keys: ``t.upsert(frame)``.

        Otherwise as ``write``. Raises InvalidRequest for a table without a primary key (``append``, ``merge``).

        ```pycon
        >>> _ = t.upsert(pl.DataFrame({"id": [2, 3], "name": ["ale", "rum"]}))
        >>> t.count()
        3
        ```
        """
        if not self._table.schema.primary_keys:
            raise InvalidRequest(
                f"table {self._table.name} has no primary key, so nothing says which rows are replaced: write "
                'append(rows), or merge(rows, "t.id = s.id").when_matched_update_all()'
            )
        return self.write(rows, options=options, missing=missing)

    @overload
    def writer(
        self,
        overwrite: Literal[False] = False,
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> TableWriter: ...

    @overload
    def writer(
        self,
        overwrite: Literal[True] | Mapping[str, object],
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> OverwriteWriter: ...

    def writer(
        self,
        overwrite: bool | Mapping[str, object] = False,
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> TableWriter | OverwriteWriter:
        """A context manager that takes Arrow rows and commits them when the block ends.

        ``overwrite`` replaces partitions. With a map of partition columns and values, it replaces those. With True, it
        replaces the partitions of the new rows. If the table has no partitions, or ``dynamic-partition-overwrite`` is
        false, it replaces the whole table.

        Rows of a ``deduplicate`` table replace whole rows, so they must have all columns. With ``missing="null"`` those
        that they lack become NULL.

        ```pycon
        >>> with t.writer() as writer:
        ...     writer.write(pl.DataFrame({"id": [3], "name": ["rum"]}))
        >>> t.count()
        3
        ```
        """
        self._table.check_rows_writable()
        table = self._with(with_missing(options, missing))
        if overwrite is False:
            return TableWriter(table, may_reject=True)
        return overwrite_writer(table, overwrite)

    def truncate(
        self, partition: Mapping[str, object] | None = None, options: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Removes all rows, or those of the partitions with these values. Raises NotFound if no partition matches."""
        self._table.check_rows_writable()
        return truncate(self._with(options), partition)

    def drop_partitions(
        self,
        partitions: Sequence[Mapping[str, object]],
        if_exists: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Removes partitions in one snapshot; each map has values of all or some partition columns.

        Raises NotFound for a map without a match, unless ``if_exists``.
        """
        self._table.check_rows_writable()
        return drop_partitions(self._with(options), partitions, if_exists)

    def follow(self, stop: str | None = None, skip_missing: bool = False) -> Iterator[Snapshot]:
        """Writes files from rows that reached the log first (``Lake.write_realtime``), exactly once; no Spark.

        Yields each snapshot that it makes, without end or (``stop="latest"``) up to the current end of the log. The
        snapshots store the position to resume from. If records that are not in the files have been deleted,
        ``skip_missing`` skips them.
        """
        self._table.check_rows_writable()
        return LogMaterializer(self._table, skip_missing).follow(stop)

    def replay_rejected(self) -> ReplaySummary:
        """Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once.

        Call it after a fix of the table's columns or options. Replayed rows are newer than all rows of the table.
        Returns the numbers of written rows and of those that are still rejected. Raises CommitConflict, CommitDecided,
        CommitUnknown, Unavailable.
        """
        self._table.check_rows_writable()
        return replay_rejected(self._table)

    def _with(self, options: Mapping[str, str] | None) -> DynamicTable:
        return self._table.with_hints(canonical_options(options or {}, "write"))

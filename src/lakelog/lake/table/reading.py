"""The methods of ``Table`` that read it: batches, changes, the log, and what other libraries take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.options.boundary import shown_value
from lakelog.sql.query.predicate_parser import Condition, predicate_of
from lakelog.state.embedded_sql import duckdb_module
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.open import hints_of, scan_of
from lakelog.table.read.base import ArrowRows, TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.file_stream import FileStream, StreamPlan, StreamStart
from lakelog.table.tail.copy import CopyProgress
from lakelog.table.tail.mirror import mirror_log
from lakelog.table.tail.subscribe import follow
from lakelog.table.tail.tail import AsyncTail, Tail
from lakelog.table.write.pipe import Function, pipe_log

if TYPE_CHECKING:
    from lakelog.spark.runtime.public_types import DataFrame


class ArrowExpression(Protocol):
    """``pyarrow.compute.Expression``, for type checkers: pyarrow has no types."""

    def is_valid(self) -> Any:
        """An expression that is true where this one is not NULL."""

    def isin(self, values: Any) -> Any:
        """An expression that is true where this one has one of these values."""


Filter: TypeAlias = (
    str | Predicate | ArrowExpression | Condition | Sequence[Condition] | Sequence[Sequence[Condition]] | None
)
"""SQL text, tuples as in pyarrow, or an Arrow expression."""


class TableReading(ArrowRows):
    """The methods of ``Table`` that read it."""

    _table: DynamicTable
    _to_dataframe: Callable[[DynamicTable, TableScan, str | None], Any]

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return scan_of(self._table).schema

    def count(self, filter: Filter = None) -> int:
        """Number of rows, or of those that match a filter as in ``scan``: ``t.count("amount > 10")``.

        ```pycon
        >>> t.count("id > 1")
        1
        ```
        """
        return self.scan(filter=filter).count()

    def head(self, rows: int = 5) -> pa.Table:
        """A few rows, in no defined order, in one Arrow table: ``t.head(10)``. Reads no more files than it needs.

        ```pycon
        >>> t.head(1).num_rows
        1
        ```
        """
        return self.scan().head(rows)

    def to_duckdb(self, connection: Any = None) -> Any:
        """The rows as a relation of DuckDB: ``t.to_duckdb().filter("id > 5").aggregate("count(*)")``.

        DuckDB reads the columns and files that its query needs, when it runs. ``connection`` is one of DuckDB, by
        default that of the process. Raises NotInstalled without DuckDB, InvalidRequest for another object.
        """
        duckdb = duckdb_module()
        if connection is None:
            connection = duckdb.default_connection()
        elif not isinstance(connection, duckdb.DuckDBPyConnection):
            raise InvalidRequest(
                f"connection={shown_value(connection)} is no connection of DuckDB: duckdb.connect() makes one"
            )
        return duckdb.from_arrow(self.scan().to_dataset(), connection=connection)

    def to_reader(self) -> pa.RecordBatchReader:
        """The current rows as an Arrow reader, batch by batch.

        ```pycon
        >>> t.to_reader().read_all().num_rows
        2
        ```
        """
        return self.scan().to_reader()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        incremental_between: tuple[int | str, int | str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> TableScan:
        """A batch read of the newest state, of a point in the past, or of changes.

        ``snapshot_id``, ``tag`` or ``timestamp`` select a past snapshot, read with the columns of that time.
        ``timestamp`` is ms since 1970, text or a datetime, and selects the newest snapshot at that time.
        ``incremental_between`` is two snapshot ids (the first excluded) or two tags, and returns the changes between
        them, with a column ``_row_kind``. Two tags are compared, and the result has the new or changed rows
        (``$audit_log`` also returns the deleted ones). ``options`` are any read options.

        ``filter`` is SQL text such as ``"id = 1 and name like 'a%'"``, tuples such as ``[("id", ">", 1)]`` (all must be
        true), or an Arrow expression. Comparisons with values skip files. The result has ``to_lazy()`` (polars),
        ``to_dataset()`` (pyarrow, DuckDB),
        ``to_arrow()``, ``to_polars()``, ``to_pandas()``, ``to_batches()``, ``head()``, ``count()``, ``limit()``,
        ``plan()``, ``explain()`` and the Arrow stream interface, so polars, pandas and DuckDB accept it directly.
        Raises InvalidRequest for a bad column or filter.

        ```pycon
        >>> t.scan(columns=["name"], filter="id = 2").to_polars().rows()
        [('milk',)]
        >>> t.scan(snapshot_id=1).count()
        2
        ```
        """
        hints = hints_of(snapshot_id, tag, timestamp, incremental_between)
        scan = scan_of(self._table.with_hints({**canonical_options(options or {}, "read"), **hints}))
        if isinstance(filter, pc.Expression):
            return scan.also(filter).select(columns)
        return scan.where(predicate_of(filter, scan.row_schema)).select(columns)

    def stream_plan(
        self,
        from_snapshot: int | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[StreamPlan]:
        """The changes that a stream of the files emits up to the newest snapshot, plan by plan; no log needed.

        ``from_snapshot`` is the first snapshot whose changes are read, to resume a stream. Without it the stream starts
        at the point set by ``scan.mode``, by default with the full newest snapshot. ``filter`` is text or tuples, as in
        ``scan``. A plan has ``next`` (the
        ``from_snapshot`` to resume with), ``to_batches()`` and ``to_arrow()``; rows have a column ``_row_kind``. Raises
        NotFound if a snapshot has expired.
        """
        stream = FileStream(self._table.with_hints(canonical_options(options or {}, "read")))
        stream = stream.where(predicate_of(filter, stream.row_schema)).select(columns)
        return stream.plans(stream.start() if from_snapshot is None else StreamStart(None, from_snapshot))

    def tail(
        self,
        start: str | Mapping[int, int] = "latest",
        stop: str | threading.Event | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Tail:
        """Follows the log and yields Arrow batches with a column ``_row_kind`` as they arrive.

        ``start`` is ``latest``, ``earliest``, a map bucket → offset, ``latest-full``, or the ``position`` of a tail,
        which resumes exactly there. ``latest-full`` reads the newest snapshot as rows of kind +I, then the log right
        after it. The call itself resolves ``start``. ``stop="latest"`` ends at the current end of the log. An event
        stops the tail shortly after it is set. ``options`` are any read options: with ``log.consistency`` =
        ``transactional`` the tail returns only committed rows, and with a ``consumer-id`` the table stores its
        position under that name when the next batch is requested. Raises OffsetExpired unless ``scan.expired-offsets``
        sets a fallback, and InvalidRequest for the position of another table.

        ```pycon
        >>> for batch in t.tail(start="earliest", stop="latest"):
        ...     print(batch.column("name").to_pylist(), batch.column("_row_kind").to_pylist())
        ['tea', 'milk'] ['+I', '+I']
        ```
        """
        table = self._table.with_hints(canonical_options(options or {}, "read"))
        scan = LogScan(table, None if columns is None else tuple(Scan(table).select(columns).schema.names))
        return follow(scan, start, stop)

    def tail_async(
        self,
        start: str | Mapping[int, int] = "latest",
        stop: str | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> AsyncTail:
        """``tail`` for ``async for``. A dedicated thread waits for the log and ends with the loop or its task."""
        ended = threading.Event()
        return AsyncTail(self.tail(start, stop or ended, columns, options), ended)

    def mirror(
        self,
        to: str,
        start: str = "latest-full",
        stop: str | threading.Event | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[CopyProgress]:
        """Copies the committed changes of the log to a Kafka topic, ``kafka://host:9092/topic``, exactly once.

        Records are debezium-json. ``start`` (latest-full, earliest, latest) counts for a new topic; later calls resume.
        Each has the ``properties`` of Kafka's client, and any read ``options``. Yields about once a second. Raises
        Fenced after the start of another mirror of the topic, and the errors of ``tail``.
        """
        table = self._table.with_hints(canonical_options(options or {}, "read"))
        return mirror_log(table, to, start, stop, properties or {})

    def pipe(
        self,
        function: Function,
        to: TableReading,
        name: str = "",
        start: str = "latest-full",
        stop: str | threading.Event | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[CopyProgress]:
        """Runs a function over the changes, and writes its rows to another table exactly once, without Spark.

        The function gets Arrow batches with ``_row_kind``, and returns rows of the other table: a batch, a table, a
        polars frame, or None for no rows. It has to keep ``_row_kind`` where rows change or go. The rows and the
        position are one commit, so a pipe that was killed continues with the next row. ``start`` (latest-full,
        earliest, latest) counts for a new pipe; later calls resume. Of a log without old rows it gets whole changes.
        ``name`` distinguishes pipes between the same tables. Yields about once a second. Raises what the function
        raises, InvalidRequest, Fenced if the same pipe runs twice, and the errors of ``tail`` and of a writer.

        ```python
        large = lambda rows: rows.filter(pc.field("amount") > 1000)
        for progress in lake.table("db.orders").pipe(large, lake.table("db.large_orders"), stop="latest"):
            print(progress.rows, progress.lag)
        ```
        """
        if not callable(function):
            raise InvalidRequest(f"function={shown_value(function)} cannot be called: give a function of Arrow batches")
        if not isinstance(to, TableReading):
            raise InvalidRequest(f"to={shown_value(to)} is no table: give lake.table('db.t')")
        source = self._table.with_hints(canonical_options(options or {}, "read"))
        return pipe_log(source, function, to._table, name, start, stop)

    def log_records(self, start: str | Mapping[int, int] = "earliest") -> Iterator[pa.Table]:
        """The log's raw records up to its current end, bucket by bucket: offset, timestamp_ms, key, value, header."""
        return LogScan(self._table).records(start)

    def to_spark(self, columns: Sequence[str] | None = None, filter: str | None = None) -> DataFrame:
        """The scan as a Spark DataFrame of the table's current state; starts Spark if needed.

        Spark's own Parquet scan reads the files where it can. If a file has expired, the frame fails.
        """
        used = self.scan(filter=filter).filter
        needed = sorted(set() if used is None else used.columns)
        scan = self.scan(None if columns is None else [*columns, *(n for n in needed if n not in columns)])
        # In Spark NaN is larger than every number, so only Spark evaluates such conditions.
        floats = any(pa.types.is_floating(self.schema.field(name).type) for name in needed)
        frame = self._to_dataframe(self._table, scan, None if floats else filter)
        rows: DataFrame = frame if filter is None else frame.where(filter)
        return rows if columns is None else rows.select(*(f"`{name}`" for name in columns))

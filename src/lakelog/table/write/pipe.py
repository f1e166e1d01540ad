"""A pipe: a Python function between the log of one table and another table, exactly once, without Spark.

It is a copy of the log (``table.tail.copy``) whose sink is a table. The rows that the function returns and the position
after its input are one epoch of a writer of the target. So a pipe that is killed at any moment continues with the next
row, and no row of the target is there twice.

A target with a key gets rows at once, and the corrections of the log, which take redundant rows back, go through the
function like other changes. A target without a key cannot delete, so it gets committed rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidRequest, OffsetExpired
from lakelog.options.log import EXPIRED_OFFSETS, LOG_CONSISTENCY, NORMALIZE
from lakelog.options.names import file_name_fault, visible
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import is_undone
from lakelog.table.tail.copy import STARTS, CopyProgress, copy_log
from lakelog.table.tail.subscribe import Stop, check_stop
from lakelog.table.write.positioned_writer import PositionedWriter
from lakelog.table.write.table_writer import batches_of

Function = Callable[[pa.RecordBatch], Any]
"""Given rows with ``_row_kind``, it returns those of the target: a batch, anything with an Arrow stream, or None."""


def pipe_log(
    source: DynamicTable, function: Function, target: DynamicTable, name: str, start: str, stop: Stop
) -> Iterator[CopyProgress]:
    """Runs the function over the changes of a log, and writes what it returns.

    ``name`` distinguishes pipes of the same two tables. ``start`` (one of ``copy.STARTS``) counts for a new pipe; later
    calls resume. A log without images of old rows is read as whole changes, and for a target without a key it is read
    transactionally, unless the source's read options say otherwise. Yields about once a second while rows arrive, and
    at the end. Raises InvalidRequest (name, start, a source without a log, a target that was rolled back),
    OffsetExpired, Fenced (the same pipe runs twice), TableReplaced, Unavailable, the errors of a writer, and what the
    function raises; the open epoch is then discarded.
    """
    check_stop(stop)
    if start not in STARTS:
        raise InvalidRequest(f"start='{visible(start)}' is not known; use {', '.join(STARTS)}")
    if source.identity == target.identity:
        raise InvalidRequest(f"table {source.name} is the source and the target of the pipe: name two tables")
    pipe = f"pipe-{name or f'{source.name}-{target.name}'}"
    if fault := file_name_fault(pipe):
        raise InvalidRequest(f"a pipe cannot be called '{visible(pipe)}', because {fault}: pass another name=")
    target.check_writable()
    scan = LogScan(source.with_hints({**_defaults(source, target), **source.hints, EXPIRED_OFFSETS.key: "error"}))
    _ = scan.location  # a source without a log raises before the target has a writer
    return _run(scan, function, target, pipe, start, stop)


def _defaults(source: DynamicTable, target: DynamicTable) -> Mapping[str, str]:
    options = {} if target.schema.is_keyed else {LOG_CONSISTENCY.key: "transactional"}
    if source.schema.is_keyed and source.changelog_mode == "upsert":
        options[NORMALIZE.key] = "true"
    return options


def _run(
    scan: LogScan, function: Function, target: DynamicTable, pipe: str, start: str, stop: Stop
) -> Iterator[CopyProgress]:
    writer = PositionedWriter(target, pipe, may_reject=True)
    try:
        sink, position = _Writing(function, target, writer), writer.position
        yield from copy_log(scan, sink, pipe, position or start, stop, is_new=not position)
    except OffsetExpired as why:
        raise OffsetExpired(
            f"the log of table {scan.table.name} has expired rows that '{pipe}' has not read "
            f"({str(why).partition('. ')[0]}): start it with another name and an empty target. Set a longer "
            "'log-store.retention', or none, to avoid this"
        ) from why
    finally:
        writer.close()
        writer.end()


@dataclass(frozen=True)
class _Writing:
    """The target as the sink of a copy."""

    function: Function
    target: DynamicTable
    writer: PositionedWriter

    def commit(self, table: DynamicTable, batches: Sequence[pa.RecordBatch], position: str) -> None:
        """Writes what the function returns, and commits it with the position."""
        if is_undone(self.target, self.writer.name):
            raise InvalidRequest(
                f"table {self.target.name} was rolled back, and has lost rows that '{self.writer.name}' had written: "
                "start it with another name and an empty target"
            )
        for batch in batches:
            result = self.function(batch)
            for rows in () if result is None else batches_of(result):
                self.writer.write(rows)
        self.writer.commit(position)

"""A running streaming query: its newest rows, and its progress."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lakelog.errors import InvalidRequest
from lakelog.io import SPARK_SCHEMES, scheme_of
from lakelog.io.clock import monotonic_s
from lakelog.spark.compat.arrow import map_in_arrow
from lakelog.spark.runtime.arrow_rows import arrow_rows
from lakelog.table.model.dynamic_table import DynamicTable


@dataclass(frozen=True)
class StreamFacts:
    """Spark's progress of a query: rows of its newest micro-batch and rates per second, None before the first.

    ``status`` is its current activity, ``error`` the error that ended it.
    """

    query: str
    name: str | None
    active: bool
    status: str
    batch: int | None = None
    rows: int | None = None
    input_rows_s: float | None = None
    processed_rows_s: float | None = None
    batch_ms: int | None = None
    error: str | None = None


def show_stream(frame: DataFrame, newest: int, show: Callable[[pa.Table], None]) -> Any:
    """Starts a streaming DataFrame; ``show`` receives the newest rows of each micro-batch, in a separate thread.

    For a large micro-batch each task keeps only its last rows, to protect the driver. Of an aggregation they are the
    groups that changed.
    """

    def shown(batch: DataFrame, _: int) -> None:
        rows = arrow_rows(map_in_arrow(batch, _last_rows(newest), batch.schema))
        if rows.num_rows:
            show(rows.slice(max(0, rows.num_rows - newest)))

    writer = frame.writeStream.foreachBatch(shown)
    try:
        return writer.start()
    except AnalysisException as refused:
        if "Append output mode" not in str(refused) and "STREAMING_OUTPUT_MODE" not in str(refused):
            raise
        return writer.outputMode("update").start()


def stream_facts(query: Any) -> StreamFacts:
    """The progress of a query; thread-safe."""
    failure = query.exception()
    status = str(query.status.get("message", ""))
    facts = StreamFacts(str(query.id), query.name, bool(query.isActive), status, error=_text(failure))
    progress = query.lastProgress
    if progress is None:
        return facts
    return StreamFacts(
        facts.query,
        facts.name,
        facts.active,
        facts.status,
        progress["batchId"],
        progress["numInputRows"],
        _rate(progress["inputRowsPerSecond"]),
        _rate(progress["processedRowsPerSecond"]),
        progress["durationMs"].get("triggerExecution"),
        facts.error,
    )


def _last_rows(newest: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: deque[pa.RecordBatch] = deque()
        total = 0
        for batch in batches:
            kept.append(batch)
            total += batch.num_rows
            while kept and total - kept[0].num_rows >= newest:
                total -= kept.popleft().num_rows
        yield from kept

    return last


def _rate(rate: Any) -> float | None:
    """A number that JSON can represent; Spark reports NaN at first."""
    try:
        number = float(rate)
    except (TypeError, ValueError):
        return None
    return round(number, 1) if number == number and number not in (float("inf"), float("-inf")) else None


def _text(failure: Any) -> str | None:
    return None if failure is None else str(failure)


def default_checkpoint(table: DynamicTable, name: str) -> str:
    """A checkpoint in the table's directory, accessible to Spark. Raises InvalidRequest for an object store."""
    if scheme_of(table.path) not in SPARK_SCHEMES:
        raise InvalidRequest(
            f"Spark cannot write a checkpoint below '{table.path}': start the stream with lake.write_stream(frame, "
            f"'{table.name}', checkpoint=…) and a directory that Spark can write to"
        )
    return f"{table.path}/lakelog/checkpoints/{name}"


def iterate_stream(frame: DataFrame, seconds: float | None = None, limit: int | None = None) -> Iterator[pa.Table]:
    """Runs the stream and yields each micro-batch's rows, up to a number of seconds or rows, or until closed."""
    batches: queue.Queue[pa.Table] = queue.Queue()
    query = frame.writeStream.foreachBatch(lambda batch, _: batches.put(arrow_rows(batch))).start()
    end = None if seconds is None else monotonic_s() + seconds
    left = limit
    try:
        while (end is None or monotonic_s() < end) and (left is None or left > 0):
            try:
                rows = batches.get(timeout=0.1)
            except queue.Empty:
                failure = query.exception()
                if failure is not None:
                    raise failure from None
                continue
            if left is not None:
                rows = rows.slice(0, left)
                left -= rows.num_rows
            if rows.num_rows:
                yield rows
    finally:
        query.stop()

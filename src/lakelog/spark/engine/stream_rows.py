"""Shows a streaming DataFrame's rows as they come: what ``lakelog sql`` prints for a query with a log hint."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from lakelog.io.clock import monotonic_s


def iterate_stream(frame: DataFrame, seconds: float | None = None, limit: int | None = None) -> Iterator[pa.Table]:
    """Runs the stream and yields each micro-batch's rows, for so many seconds or rows, or until closed."""
    batches: queue.Queue[pa.Table] = queue.Queue()
    query = frame.writeStream.foreachBatch(lambda batch, _: batches.put(batch.toArrow())).start()
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

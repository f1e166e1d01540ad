"""Micro-batches of a table's changes that this process makes, for a Spark that has no Python sources of streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakelog.errors import CommitConflict, UnsupportedFeature
from lakelog.io import file_io_for
from lakelog.io.journal import Journal
from lakelog.spark.compat.arrow import frame_of_rows, to_arrow
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.compat.sources import ReadAllAvailable
from lakelog.spark.read.file_stream_reader import LakelogFileStreamReader
from lakelog.spark.read.log_stream_reader import LakelogStreamReader
from lakelog.spark.read.normalized_reader import NormalizedStreamReader
from lakelog.spark.read.task_frame import frame_of_parts
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.tail.normalizer import normalizes

_POLL_S: Final = 0.1
"""Interval between two looks for new changes while there are none."""
_KEPT: Final = 100
"""Number of micro-batches whose positions stay in a checkpoint, as in Spark's own."""

BatchFunction = Callable[[DataFrame, int], Any]
"""Takes the rows of a micro-batch and its number."""


@dataclass(frozen=True)
class MicroBatches:
    """The changes of a table with ``_row_kind``, micro-batch by micro-batch; ``schema`` has their columns."""

    spark: SparkSession
    table: DynamicTable
    schema: StructType

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(DataFrame, name):
            raise UnsupportedFeature(
                f"'{name}' of a stream of table {self.table.name} needs Spark {DATA_SOURCES.text}, because older ones "
                f"have no Python data sources: write lake.read_stream('{self.table.name}', …).foreach_batch(function, "
                "checkpoint)"
            )
        raise AttributeError(name)

    def foreach_batch(
        self, function: BatchFunction, checkpoint: str, *, available_now: bool = False
    ) -> MicroBatchQuery:
        """Starts a thread that gives each micro-batch to ``function``, and returns its query.

        ``checkpoint`` is a directory of this query alone. A query that starts again with it gives the micro-batch that
        was running once more, with the same rows and the same number, and goes on. With ``available_now`` the query
        ends when all changes that were there at its start are done.
        """
        return MicroBatchQuery(self, function, checkpoint, available_now)


class MicroBatchQuery:
    """A running query of ``MicroBatches``. Its methods have the names of Spark's ``StreamingQuery``."""

    def __init__(self, source: MicroBatches, function: BatchFunction, checkpoint: str, available_now: bool) -> None:
        self._source, self._function, self._available_now = source, function, available_now
        self._reader = _reader_of(source.table, source.schema)
        io = file_io_for(checkpoint)
        self._offsets, self._commits = Journal(io, f"{checkpoint}/offsets"), Journal(io, f"{checkpoint}/commits")
        self._checkpoint, self._stopped, self._idle = checkpoint, threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"lakelog-stream-{source.table.name}", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """True while the query runs."""
        return self._thread.is_alive()

    def exception(self) -> BaseException | None:
        """The error that has ended the query, None if there is none."""
        return self._failure

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Waits until the query ends, at most some seconds; returns whether it has. Raises the error that ended it."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def processAllAvailable(self) -> None:  # noqa: N802
        """Waits until the changes of this moment are done. Raises the error that ended the query."""
        for _ in range(2):  # the first look may have begun before the newest change
            self._idle.clear()
            while self._thread.is_alive() and not self._idle.wait(_POLL_S):
                pass
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ends the query after the running micro-batch."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException as why:
            self._failure = why
        finally:
            self._reader.stop()

    def _follow(self) -> None:
        number, at = self._position()
        if self._available_now:
            self._reader.prepareForTriggerAvailableNow()
        while not self._stopped.is_set():
            end = _plain(self._reader.latestOffset(at, ReadAllAvailable()))
            if end == at:
                self._idle.set()
                if self._available_now:
                    return
                self._stopped.wait(_POLL_S)
                continue
            self._decide(number, at, end)
            self._give(number, at, end)
            number, at = number + 1, end

    def _position(self) -> tuple[int, dict[str, Any]]:
        """The number of the next micro-batch and its start; one that was not completed is given again first."""
        known = self._offsets.files()
        if not known:
            return 0, _plain(self._reader.initialOffset())
        last = max(known)
        both = json.loads(self._offsets.read(last) or b"{}")
        if not self._commits.has(last):
            self._give(last, both["start"], both["end"])
        return last + 1, both["end"]

    def _decide(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        """Writes down the ends of a micro-batch before its rows are given. Raises CommitConflict."""
        if not self._offsets.create(number, json.dumps({"start": start, "end": end}).encode()):
            raise CommitConflict(
                f"the checkpoint '{self._checkpoint}' has micro-batch {number} of another process: stop the other "
                "query, or use another directory"
            )

    def _give(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        parts = self._reader.partitions(start, end)
        fetched = getattr(self._reader, "getCache", lambda *_: None)(start, end)
        spark, schema = self._source.spark, self._source.schema
        if fetched is not None:
            frame = frame_of_rows(spark, pa.Table.from_batches(list(fetched), to_arrow(schema)), schema)
        else:
            frame = frame_of_parts(spark, parts, self._reader.read, schema)
        self._function(frame, number)
        self._commits.create(number, b"{}")
        self._reader.commit(end)
        for journal in (self._offsets, self._commits):
            if number % _KEPT == 0:
                journal.delete_below(number - _KEPT)


def _plain(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as the checkpoint has it."""
    position: dict[str, Any] = json.loads(json.dumps(offset))
    return position


def _reader_of(table: DynamicTable, schema: StructType) -> Any:
    if not table.reads_log:
        return LakelogFileStreamReader(table, schema)
    return (NormalizedStreamReader if normalizes(table) else LakelogStreamReader)(table, schema)

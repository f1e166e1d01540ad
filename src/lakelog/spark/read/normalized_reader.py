"""Streaming read of the log in Spark as whole changes (``log.consumer.normalize``), with one task per bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.filestore.read.plan import Split
from lakelog.spark.compat.sources import InputPartition
from lakelog.spark.read.log_stream_reader import PARTITION_ROWS, FullRange, LakelogStreamReader, LogRange, Offsets
from lakelog.spark.runtime.types import conform
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.log.partitions import may_hold
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.tail.normalizer import Normalizer, StreamOrigin, StreamStates

_STATE = "state"


class StateRange(InputPartition):
    """Rows of a log partition in a reader's first snapshot; they become its state, and yield no rows.

    ``then`` are records of the same micro-batch, which need the state.
    """

    def __init__(
        self, bucket: int, splits: Sequence[Split], origin: StreamOrigin, then: NormalizedRange | None = None
    ) -> None:
        super().__init__(bucket)
        self.bucket, self.splits, self.origin, self.then = bucket, tuple(splits), origin, then


class NormalizedRange(LogRange):
    """Records of one bucket that are emitted as whole changes."""

    def __init__(self, bucket: int, start: int, end: int, switch: SnapshotCutover | None, origin: StreamOrigin) -> None:
        super().__init__(bucket, start, end, switch)
        self.origin = origin


class NormalizedStreamReader(LakelogStreamReader):
    """The source of a streaming query on an upsert log that emits whole changes.

    Its offsets have ``"state"``, too: the owner of the state and its start. A small micro-batch is read during
    planning, from states that this process keeps and saves at intervals. In a large one each bucket is a task, which
    saves its state before it ends. Both produce the same rows, from any saved state.
    """

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        super().__init__(table, schema)
        self._normalizer = Normalizer(self._scan)
        self._states: StreamStates | None = None

    def __getstate__(self) -> dict[str, object]:
        """The reader without its states, whose files are open; tasks and other planners open their own."""
        return {**self.__dict__, "_states": None}

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        return self._with_new_origin(super().initialOffset())

    def _with_new_origin(self, offset: Mapping[str, object]) -> dict[str, object]:
        position = self._from_json(offset)
        return {**offset, _STATE: StreamOrigin.new(position.offsets, position.full).to_values()}

    def _restart(self) -> dict[str, object]:
        return self._with_new_origin(super()._restart())

    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:  # noqa: N802
        states = self._states_of(start)
        states.save_old()
        end = super().latestOffset(start, limit)  # type: ignore[arg-type]
        return end if _STATE in end else {**end, _STATE: start[_STATE]}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        parts = super().partitions(start, end)
        begin, stop = self._ends_of(start, end)
        if begin.full is None or not begin.full[0] or stop.full is not None:
            return parts
        splits = self._parts_of(begin.full[0])  # last parts of the snapshot, all of it is the state from here on
        origin, schema = _origin_of(end), self._scan.table.schema
        then = {part.bucket: part for part in parts if isinstance(part, NormalizedRange)}
        return [
            *(part for part in parts if isinstance(part, FullRange)),
            *(StateRange(b, [s for s in splits if may_hold(schema, s, b)], origin, then.get(b)) for b in stop.offsets),
        ]

    def _fetch(self, position: LogPosition, begin: Offsets, end: Offsets) -> list[pa.RecordBatch] | None:
        assert self._states is not None
        out, rows = list[pa.RecordBatch](), 0
        for bucket in (b for b in begin if begin[b] < end[b]):
            for batch in self._states.changes(bucket, begin[bucket], end[bucket]):
                out.append(conform(batch, self._target))
                rows += batch.num_rows
                if rows > PARTITION_ROWS and self._scan.is_transactional:  # of an epoch that began long before
                    return None
        return out

    def _ranges(
        self, bucket: int, start: int, end: int, switch: SnapshotCutover | None, to: Mapping[str, object]
    ) -> Iterator[LogRange]:
        if start < end:
            yield NormalizedRange(bucket, start, end, switch, _origin_of(to))

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(input_partition, StateRange):
            prepare_worker()
            part = input_partition
            StreamStates(self._normalizer, part.origin).fill(part.bucket, part.splits)
            if part.then is not None:
                yield from self.read(part.then)
        elif isinstance(input_partition, NormalizedRange):
            prepare_worker()
            own = input_partition
            normalizer = Normalizer(replace(self._scan, switch=own.switch))
            states = StreamStates(normalizer, own.origin)
            for batch in states.changes(own.bucket, own.start, own.end, saves=True):
                yield conform(batch, self._target)
        else:
            yield from super().read(input_partition)

    def commit(self, end: dict[str, object]) -> None:
        super().commit(end)
        position = self._from_json(end)
        if position.full is None:
            self._states_of(end).delete_old_saves(position.offsets)

    def stop(self) -> None:
        if self._states is not None:
            self._states.save_all()

    def _states_of(self, offset: Mapping[str, object]) -> StreamStates:
        origin = _origin_of(offset)
        if self._states is None or self._states.origin != origin:
            switch = self._from_json(offset).switch
            self._states = StreamStates(Normalizer(replace(self._scan, switch=switch)), origin)
        return self._states


def _origin_of(offset: Mapping[str, object]) -> StreamOrigin:
    state = offset.get(_STATE)
    if not isinstance(state, Mapping):
        raise InvalidRequest(
            "the checkpoint belongs to a query without 'log.consumer.normalize': use a new checkpointLocation"
        )
    return StreamOrigin.from_values(state)

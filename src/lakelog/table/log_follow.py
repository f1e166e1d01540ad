"""Follows the log from any start, without Spark: the snapshot first if asked for, whole changes if asked for."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from lakelog.errors import OffsetExpired
from lakelog.io.local import LocalFileIO
from lakelog.options.log import EXPIRED_OFFSETS
from lakelog.table.keyed_state import KeyedState
from lakelog.table.log_position import LogPosition
from lakelog.table.log_scan import LogScan, is_set
from lakelog.table.log_switch import FullPart, latest_full, start_position
from lakelog.table.normalizer import Normalizer, normalizes


def follow(
    scan: LogScan, start: str | Mapping[int, int] | None, stop: str | threading.Event | None
) -> Iterator[pa.RecordBatch]:
    """``LogScan.tail`` from any start, ``latest-full`` too, with ``scan.expired-offsets`` and
    ``log.consumer.normalize``.

    The position is taken when the call is made. Raises as ``tail``, and NotFound when the snapshot expires while it is
    read.
    """
    position = start_position(scan, start)
    return (_normalized if normalizes(scan.table) else _followed)(scan, position, stop)


def _followed(scan: LogScan, position: LogPosition, stop: str | threading.Event | None) -> Iterator[pa.RecordBatch]:
    part = FullPart(scan.table, scan.columns)
    while True:
        for split in () if position.full is None else part.splits(position.full[0]):
            for batch in part.read(split):
                if is_set(stop):
                    return
                yield batch
        try:
            yield from replace(scan, switch=position.switch).tail(position.offsets, stop)
            return
        except OffsetExpired:
            if scan.table.options.need(EXPIRED_OFFSETS) != "latest-full":
                raise
            position = latest_full(scan.table)


def _normalized(scan: LogScan, position: LogPosition, stop: str | threading.Event | None) -> Iterator[pa.RecordBatch]:
    """The same as whole changes; the state lies in a local directory that goes with the reader."""
    normalizer = Normalizer(scan)
    part = FullPart(scan.table, normalizer.read_scan.columns)
    while True:
        with tempfile.TemporaryDirectory(prefix="lakelog-normalize-") as directory:
            states = _LocalStates(normalizer, directory)
            for split in () if position.full is None else part.splits(position.full[0]):
                for batch in part.read(split):
                    if is_set(stop):
                        return
                    normalizer.fill(states.of(split.bucket), [batch])
                    yield batch.select(scan.schema.names)
            try:
                tailed = replace(normalizer.read_scan, switch=position.switch)
                yield from tailed.tail(position.offsets, stop, states.changes)
                return
            except OffsetExpired:
                if scan.table.options.need(EXPIRED_OFFSETS) != "latest-full":
                    raise
                position = latest_full(scan.table)


class _LocalStates:
    """The states of all buckets, in one directory."""

    def __init__(self, normalizer: Normalizer, directory: str) -> None:
        self._normalizer, self._directory = normalizer, directory
        self._states: dict[int, KeyedState] = {}

    def of(self, bucket: int) -> KeyedState:
        """The state of a bucket."""
        if bucket not in self._states:
            self._states[bucket] = self._normalizer.state(
                LocalFileIO(), f"{self._directory}/{bucket}", 0, durable=False
            )
        return self._states[bucket]

    def changes(self, bucket: int, rows: pa.Table) -> pa.Table:
        """The changes that rows of the log make."""
        if not rows.num_rows:
            return self._normalizer.scan.schema.empty_table()
        return self._normalizer.changes(self.of(bucket), rows.combine_chunks().to_batches()[0])

"""A tail of the log: batches without end, and the position behind the last one that was handed out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakelog.io.metrics import METER, log_errors
from lakelog.options.metrics import ROWS_TAILED
from lakelog.table.log.scan import LogScan
from lakelog.table.tail.position import TailPosition

Step = tuple[pa.RecordBatch | None, TailPosition]
"""What a tail comes to: the next batch, or nothing to hand out, and the position behind it."""


@dataclass
class ResumeRequest:
    """What a tail knows of those who ask for its position.

    ``offsets`` are those of the last one that somebody asked for, None before the first. ``save`` saves the state of a
    tail that has ended, for the first one who asks then.
    """

    offsets: Mapping[int, int] | None = None
    save: Callable[[], None] | None = None


class Tail(Iterator[pa.RecordBatch]):
    """The changes of a log as Arrow batches, each as soon as it is there. Made by ``Table.tail``; for one thread.

    ``position`` may be asked for from other threads.
    """

    def __init__(self, scan: LogScan, start: TailPosition, steps: Generator[Step], asked: ResumeRequest) -> None:
        self._scan, self._steps, self._asked = scan, steps, asked
        self.reached = start

    def __iter__(self) -> Tail:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch, table = None, self._scan.table.name
        with log_errors(table, "read"), self._scan.table.explained():
            while batch is None:
                batch, self.reached = next(self._steps)
        METER.add(ROWS_TAILED, batch.num_rows, table=table)
        return batch

    @property
    def position(self) -> str:
        """Where the batches that were handed out end, as a text to keep: ``Table.tail`` goes on from there.

        The same until the next batch, or until records have passed that show nothing. A tail that makes whole changes
        (``log.consumer.normalize``) begins to save its state in the table's directory when it is asked first.
        """
        return self.text_of(self.reached)

    def text_of(self, reached: TailPosition) -> str:
        """A position of this tail (``reached``, of now or before) as a text to keep."""
        self._asked.offsets = reached.log.offsets
        if self._asked.save is not None:
            self._asked.save()
            self._asked.save = None
        return reached.to_text(self._scan)

    def close(self) -> None:
        """Ends the tail, and removes what it holds on this machine; the position stays."""
        self._steps.close()
        self._asked.save = None

"""Streaming writes that die and start again, without Spark: the real tasks, committer and log, a step at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from changelogs import added_up
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.log.register import register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.staging.task_writer import TaskWriter

Net = dict[tuple[int, str], int]
"""Row (id, name) of a table without a key → how often it is there."""


class Job:
    """A streaming query from one start to its end: ``epoch`` runs a micro-batch, ``lose`` one whose tasks all die."""

    def __init__(self, table: Table, tasks: int = 1, writer: str = "query") -> None:
        self.table, self.tasks, self.writer = table.logical, tasks, writer
        register_writer(self.table, writer)
        self.committer = Committer(self.table, writer)

    def epoch(self, number: int, ids: Sequence[int]) -> None:
        self.committer.commit(number, self.attempts(number, ids))

    def attempts(self, number: int, ids: Sequence[int]) -> list[AttemptResult]:
        return [task.finish() for task in self._run(number, ids)]

    def lose(self, number: int, ids: Sequence[int]) -> None:
        for task in self._run(number, ids):
            task.flush_log()

    def _run(self, number: int, ids: Sequence[int]) -> list[TaskWriter]:
        out = []
        for lane in range(self.tasks):
            task = TaskWriter(self.table, self.writer, number, lane)
            for start in range(lane, len(ids), 200 * self.tasks):
                part = ids[start : start + 200 * self.tasks : self.tasks]
                task.write(pa.record_batch({"id": pa.array(part, pa.int32()), "name": [f"e{number}"] * len(part)}))
            out.append(task)
        return out


def net(table: Table, start: str | Mapping[int, int] = "earliest") -> Net:
    """What a reader has in the end that takes back what it is told to."""
    return dict(added_up(table.tail(start, stop="latest")))


def files(table: Table) -> Net:
    rows = table.scan().to_arrow()
    return dict(Counter(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True)))


def end(table: Table) -> dict[int, int]:
    return {0: sum(part.num_rows for part in table.log_records())}

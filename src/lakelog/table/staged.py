"""Epochs that are decided but not yet sealed into a snapshot: their records, listed and read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import orjson

from lakelog.errors import NotFound
from lakelog.io.file_io import FileIO
from lakelog.table.epoch_record import EpochRecord

_PREFIX = "epoch-"
_ORIGIN = "origin"
_BATCH = "batch"


@dataclass(frozen=True)
class Registration:
    """A writer of the log: when it came (ms since 1970), and its newest decided epoch that is staged, -1 for none.

    ``is_batch``: it has said that it is a batch writer, which never comes back once its process or job is gone.
    """

    time_ms: int
    newest_epoch: int
    is_batch: bool = False


@dataclass(frozen=True)
class BatchMark:
    """What a batch writer leaves before its first record: its machine and process, where one process is all of it.

    A job of Spark has none (process 0): its driver, its planner and its committer are processes of their own.
    """

    machine: str = ""
    process: int = 0


@dataclass(frozen=True)
class StagedEpochs:
    """The epoch records of one table (``<table>/lakelog/staged/<writer>/epoch-<n>``).

    Records for another table than ``table_id`` count for nothing: whoever decided one had looked at the table that lay
    there before, and DROP and CREATE came between the look and the record.
    """

    io: FileIO
    table_path: str
    table_id: str = ""

    @property
    def _root(self) -> str:
        return f"{self.table_path}/lakelog/staged"

    def path(self, writer: str, epoch: int) -> str:
        """Where the record of an epoch lies."""
        return f"{self._root}/{writer}/{_PREFIX}{epoch:019d}"

    def decide(self, record: EpochRecord) -> EpochRecord:
        """Creates the record if the epoch is undecided; returns the record that stands (step 2 of RFC 2).

        Raises CommitUnknown when the storage does not say whether it was created.
        """
        path = self.path(record.writer, record.epoch)
        if self.io.create(path, replace(record, table=self.table_id).to_bytes()):
            return record
        found = EpochRecord.from_bytes(self.io.read(path), path)
        if self._is_own(found):
            return found
        self.io.delete(path)
        return self.decide(record)

    def _is_own(self, record: EpochRecord) -> bool:
        return not record.table or record.table == self.table_id

    def read(self, writer: str, epoch: int) -> EpochRecord | None:
        """The record of an epoch, None when it is undecided or sealed."""
        path = self.path(writer, epoch)
        try:
            found = EpochRecord.from_bytes(self.io.read(path), path)
        except NotFound:
            return None
        return found if self._is_own(found) else None

    def writers(self) -> list[str]:
        """Writers that have staged something once."""
        return sorted(s.path.rsplit("/", 1)[-1] for s in self.io.list(self._root) if s.is_dir)

    def epochs(self, writer: str) -> list[int]:
        """Numbers of the staged epochs of a writer, ascending."""
        return _epochs_of(s.path.rsplit("/", 1)[-1] for s in self.io.list(f"{self._root}/{writer}"))

    def records(self, writer: str, after: int = -1) -> list[EpochRecord]:
        """Records of a writer's epochs after one, ascending; one that is sealed meanwhile is left out."""
        found = (self.read(writer, epoch) for epoch in self.epochs(writer) if epoch > after)
        return [record for record in found if record is not None]

    def all_records(self) -> list[EpochRecord]:
        """Records of all writers, by decision time."""
        timed: list[tuple[int, str, int, EpochRecord]] = []
        for writer in self.writers():
            newest = 0  # a clock that steps back must not reorder the epochs of a writer
            for record in self.records(writer):
                newest = max(newest, record.time_ms)
                timed.append((newest, writer, record.epoch, record))
        return [record for *_, record in sorted(timed, key=lambda t: t[:3])]

    def origin_path(self, writer: str) -> str:
        """The file that remembers where the log ended before the writer's first record; it goes first."""
        return f"{self._root}/{writer}/{_ORIGIN}"

    def origin(self, writer: str) -> dict[int, int]:
        """Bucket → the end of the log before the writer's first record. Raises NotFound for one that has gone."""
        return {int(b): o for b, o in orjson.loads(self.io.read(self.origin_path(writer))).items()}

    def mark_batch(self, writer: str, mark: BatchMark) -> None:
        """Says that a writer is a batch writer; before its origin, so that whoever sees it at work knows."""
        self.io.write(f"{self._root}/{writer}/{_BATCH}", orjson.dumps(asdict(mark)))

    def batch_mark(self, writer: str) -> BatchMark | None:
        """What a batch writer has said of itself; None for one that has gone, and for any other writer."""
        try:
            found = orjson.loads(self.io.read(f"{self._root}/{writer}/{_BATCH}"))
            return BatchMark(str(found["machine"]), int(found["process"]))
        except (NotFound, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None

    def registered(self) -> dict[str, Registration]:
        """The writers that may append to the log now, or did and never said goodbye."""
        out = {}
        for writer in self.writers():
            found = {s.path.rsplit("/", 1)[-1]: s.mtime_ms for s in self.io.list(f"{self._root}/{writer}")}
            if _ORIGIN in found:
                out[writer] = Registration(found[_ORIGIN], max(_epochs_of(found), default=-1), _BATCH in found)
        return out

    def is_registered(self, writer: str) -> bool:
        """Whether the writer has come to the log, or staged an epoch, and has not been forgotten."""
        return self.io.exists(self.origin_path(writer)) or bool(self.epochs(writer))

    def forget(self, writer: str, epochs: list[int]) -> None:
        """Deletes records of sealed epochs; a missing one is fine."""
        for epoch in epochs:
            self.io.delete(self.path(writer, epoch))

    def forget_writer(self, writer: str) -> None:
        """Deletes all that a writer left; only when all its epochs are sealed or taken back.

        The origin first: a reader that does not find it knows that no epoch of this writer is open.
        """
        self.io.delete(self.origin_path(writer))
        self.io.delete_dir(f"{self._root}/{writer}")


def _epochs_of(names: Iterable[str]) -> list[int]:
    """The epochs whose records are among the files of a writer, ascending."""
    return sorted(int(n[len(_PREFIX) :]) for n in names if n.startswith(_PREFIX) and n[len(_PREFIX) :].isdigit())

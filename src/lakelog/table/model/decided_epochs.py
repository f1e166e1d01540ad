"""The decided epochs of a table that may not be in a snapshot yet: their records, in commit order.

A table with a primary key has one *chain*: the files ``lakelog/chain/<n>``, n = 1, 2, 3, … A decision by any writer
creates the next link if it is absent, so all writers share one order (RFC 11). A table without a key has a lane per
writer, ``lakelog/staged/<writer>/epoch-<n>``. There the order has no meaning, and no writer waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from lakelog.errors import CommitConflict
from lakelog.io.journal import Journal
from lakelog.io.storage.file_io import FileIO
from lakelog.table.model.epoch_record import EpochRecord


@dataclass(frozen=True)
class DecidedEpochs:
    """The epoch records of one table; ``keyed`` tables have a chain.

    Records that an older version staged in a lane of a keyed table precede the chain, by the time of decision. Records
    of another table than ``table_id`` decide nothing. Their writer had read the previous table at this path, and DROP
    and CREATE ran before it wrote the record. As a link, such a record keeps its number and is void.
    ``own_directory`` gives the storage to delete a record with, and raises TableReplaced if another table is now at
    this path (``Identity.own_directory``). A record that is deleted or passed over may belong to that table. ``log`` is
    the generation of the log that the table was opened with (RFC 27): records are read without their places in others.
    """

    io: FileIO
    table_path: str
    keyed: bool
    own_directory: Callable[[], AbstractContextManager[FileIO]]
    table_id: str = ""
    log: int = 0

    def all(self) -> list[EpochRecord]:
        """Every existing record, in order, void links too. Omits records that are deleted in the meantime."""
        writers = sorted(s.name for s in self.io.list(f"{self.table_path}/lakelog/staged") if s.is_dir)
        timed: list[tuple[int, str, int, EpochRecord]] = []
        for writer in writers:
            newest = 0  # clock skew must not reorder a writer's epochs
            for record in self._staged(writer):
                newest = max(newest, record.time_ms)
                timed.append((newest, writer, record.epoch, record))
        staged = [record for *_, record in sorted(timed, key=lambda t: t[:3])]
        return [*staged, *self.links()] if self.keyed else staged

    def links(self) -> list[EpochRecord]:
        """The links in a listing, ascending."""
        links = (self.link(number) for number in self._chain.files())
        return [record for record in links if record is not None]

    def link(self, number: int) -> EpochRecord | None:
        """One link of the chain; None if it was never created, or is sealed and forgotten."""
        record = self._read(self._chain, number)
        return (
            record if record is None or self._is_own(record) else EpochRecord("", -1, record.time_ms, (), number=number)
        )

    def staged(self, writer: str, epoch: int) -> EpochRecord | None:
        """One record of a writer's lane; None if it was never created, or is sealed and forgotten."""
        record = self._read(self._lane(writer), epoch)
        return record if record is not None and self._is_own(record) else None

    def exists(self, record: EpochRecord) -> bool:
        """True if the record is not forgotten."""
        return self.io.exists(self._path(record))

    def lane(self, writer: str) -> list[int]:
        """The epochs of a writer's lane that have a record, ascending. Reads none."""
        return [*self._lane(writer).files()]

    def of(self, writer: str) -> list[EpochRecord]:
        """The records of a writer's epochs, ascending."""
        links = (record for record in (self.links() if self.keyed else ()) if record.writer == writer)
        return sorted((*self._staged(writer), *links), key=lambda r: r.epoch)

    def newest(self) -> dict[str, int]:
        """Writer → its newest existing epoch. Reads no staged file."""
        writers = (s.name for s in self.io.list(f"{self.table_path}/lakelog/staged") if s.is_dir)
        out = {writer: lane[-1] for writer in sorted(writers) if (lane := self.lane(writer))}
        for record in self.links() if self.keyed else ():
            if record.writer:
                out[record.writer] = max(record.epoch, out.get(record.writer, record.epoch))
        return out

    def decide(self, record: EpochRecord, tip: int = 0) -> tuple[EpochRecord, bool]:
        """Creates the record if its epoch is undecided; returns the valid one, and whether it was created here.

        ``tip`` is the last link of the chain that the caller has read or knows to be sealed; no link up to it has this
        epoch. Raises CommitUnknown if the storage does not report whether the file was created, and CommitConflict if
        the log of the table was added or removed before the next free link.
        """
        journal, number = (self._chain, tip + 1) if self.keyed else (self._lane(record.writer), record.epoch)
        data = replace(record, table=self.table_id, log=self.log).to_bytes()
        while not journal.create(number, data):
            other = self._read(journal, number)  # None: sealed meanwhile, with all before it
            if other is not None and not self._is_own(other):
                with self.own_directory() as io:
                    if not self.keyed:  # else it could be the decision of a process that has just done the same
                        io.delete(journal.path(number))
            elif other is not None and (other.writer, other.epoch) == (record.writer, record.epoch):
                return other, False
            elif other is not None:
                self.check_log(other.log)
            number += self.keyed
        return replace(record, number=number if self.keyed else 0, log=self.log), True

    def check_log(self, log: int) -> None:
        """Raises CommitConflict if others know a later log of the table, or that it has none any more."""
        if log > self.log:
            raise CommitConflict(
                f"the log of the table at {self.table_path} was added or removed after this writer had opened it, and "
                "none of these rows are in the table: open the table again and write them, or restart the query, which "
                "continues from its checkpoint"
            )

    def forget(self, records: Collection[EpochRecord]) -> None:
        """Deletes records of sealed epochs; ignores missing ones.

        A link that is in no snapshot must stay, even if it decides nothing, because the chain has no gaps. Raises
        TableReplaced.
        """
        if not records:
            return
        with self.own_directory() as io:
            for record in records:
                io.delete(self._path(record))

    @property
    def _chain(self) -> Journal:
        return Journal(self.io, f"{self.table_path}/lakelog/chain")

    def _lane(self, writer: str) -> Journal:
        return Journal(self.io, f"{self.table_path}/lakelog/staged/{writer}", "epoch-")

    def _path(self, record: EpochRecord) -> str:
        return self._chain.path(record.number) if record.number else self._lane(record.writer).path(record.epoch)

    def _staged(self, writer: str) -> list[EpochRecord]:
        records = (self.staged(writer, epoch) for epoch in self.lane(writer))
        return [record for record in records if record is not None]

    def _read(self, journal: Journal, number: int) -> EpochRecord | None:
        data, link = journal.read(number), 0 if journal.prefix else number
        record = None if data is None else EpochRecord.from_bytes(data, journal.path(number), link)
        return record if record is None or record.log == self.log else record.without_log()

    def _is_own(self, record: EpochRecord) -> bool:
        return record.table in ("", self.table_id)

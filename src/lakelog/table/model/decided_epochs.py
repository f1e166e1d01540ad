"""The decided epochs of a table that may not be in a snapshot yet: their records, in commit order.

A table with a primary key has one *chain*: the files ``lakelog/chain/<n>``, n = 1, 2, 3, … A decision by any writer
creates the next link if it is absent, so all writers share one order (RFC 11). A table without a key has a lane per
writer, ``lakelog/staged/<writer>/epoch-<n>``. There the order has no meaning, and no writer waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from lakelog.errors import NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.table.model.epoch_record import EpochRecord

_PREFIX = "epoch-"


@dataclass(frozen=True)
class DecidedEpochs:
    """The epoch records of one table; ``keyed`` tables have a chain.

    Records that an older version staged in a lane of a keyed table precede the chain, by the time of decision. Records
    of another table than ``table_id`` decide nothing. Their writer had read the previous table at this path, and DROP
    and CREATE ran before it wrote the record. As a link, such a record keeps its number and is void.
    ``own_directory`` gives the storage to delete a record with, and raises TableReplaced if another table is now at
    this path (``Identity.own_directory``). A record that is deleted or passed over may belong to that table.
    """

    io: FileIO
    table_path: str
    keyed: bool
    own_directory: Callable[[], AbstractContextManager[FileIO]]
    table_id: str = ""

    def all(self) -> list[EpochRecord]:
        """Every existing record, in order, void links too. Omits records that are deleted in the meantime."""
        staged = self._by_time(_staged_files(self.io, f"{self.table_path}/lakelog/staged"))
        return [*staged, *self.links()] if self.keyed else staged

    def links(self) -> list[EpochRecord]:
        """The links in a listing, ascending."""
        names = (s.name for s in self.io.list(f"{self.table_path}/lakelog/chain"))
        found = (self.link(number) for number in sorted(int(name) for name in names if name.isdigit()))
        return [record for record in found if record is not None]

    def link(self, number: int) -> EpochRecord | None:
        """One link of the chain; None if it was never created, or is sealed and forgotten."""
        found = self._read(self._link_path(number), number)
        return found if found is None or self._own(found) else EpochRecord("", -1, found.time_ms, (), number=number)

    def staged(self, writer: str, epoch: int) -> EpochRecord | None:
        """One record of a writer's lane; None if it was never created, or is sealed and forgotten."""
        return self._own(self._read(self._staged_path(writer, epoch)))

    def exists(self, record: EpochRecord) -> bool:
        """True if the record is not forgotten."""
        number = record.number
        return self.io.exists(self._link_path(number) if number else self._staged_path(record.writer, record.epoch))

    def lane(self, writer: str) -> list[int]:
        """The epochs of a writer's lane that have a record, ascending. Reads none."""
        return [epoch for _, epoch in _epoch_files(self.io, f"{self.table_path}/lakelog/staged/{writer}")]

    def of(self, writer: str) -> list[EpochRecord]:
        """The records of a writer's epochs, ascending."""
        found = self.links() if self.keyed else []
        staged = self._staged(writer)
        return sorted((r for r in (*staged, *found) if r.writer == writer), key=lambda r: r.epoch)

    def newest(self) -> dict[str, int]:
        """Writer → its newest existing epoch. Reads no staged file."""
        out: dict[str, int] = {}
        epochs = [epoch for _, epoch in _staged_files(self.io, f"{self.table_path}/lakelog/staged")]
        for writer, epoch in [
            *epochs,
            *((r.writer, r.epoch) for r in (self.links() if self.keyed else ()) if r.writer),
        ]:
            out[writer] = max(epoch, out.get(writer, epoch))
        return out

    def decide(self, record: EpochRecord, tip: int = 0) -> tuple[EpochRecord, bool]:
        """Creates the record if its epoch is undecided; returns the valid one, and whether it was created here.

        ``tip`` is the last link of the chain that the caller has read or knows to be sealed; no link up to it has this
        epoch. Raises CommitUnknown if the storage does not report whether the file was created.
        """
        number, data = tip + 1 if self.keyed else 0, replace(record, table=self.table_id).to_bytes()
        while True:
            path = self._link_path(number) if number else self._staged_path(record.writer, record.epoch)
            if self.io.create(path, data):
                return replace(record, number=number), True
            found = self._read(path, number)
            if found is not None and self._own(found) is None:
                with self.own_directory() as io:
                    if number:
                        # deleting it could delete the decision of a process that has just done the same
                        number += 1
                    else:
                        io.delete(path)
            elif found is not None and (found.writer, found.epoch) == (record.writer, record.epoch):
                return found, False
            else:  # another writer's, or sealed in the meantime with all before it
                number += bool(number)

    def forget(self, records: Collection[EpochRecord]) -> None:
        """Deletes records of sealed epochs; ignores missing ones.

        A link that is in no snapshot must stay, even if it decides nothing, because the chain has no gaps. Raises
        TableReplaced.
        """
        if not records:
            return
        with self.own_directory() as io:
            for record in records:
                io.delete(
                    self._link_path(record.number) if record.number else self._staged_path(record.writer, record.epoch)
                )

    def _link_path(self, number: int) -> str:
        return f"{self.table_path}/lakelog/chain/{number:019d}"

    def _staged_path(self, writer: str, epoch: int) -> str:
        return f"{self.table_path}/lakelog/staged/{writer}/{_PREFIX}{epoch:019d}"

    def _staged(self, writer: str) -> list[EpochRecord]:
        files = _epoch_files(self.io, f"{self.table_path}/lakelog/staged/{writer}")
        return [record for record in (self._own(self._read(path)) for path, _ in files) if record is not None]

    def _read(self, path: str, number: int = 0) -> EpochRecord | None:
        try:
            return EpochRecord.from_bytes(self.io.read(path), path, number)
        except NotFound:
            return None

    def _own(self, record: EpochRecord | None) -> EpochRecord | None:
        """The record, or None if it belongs to a previous table at this path."""
        return record if record is not None and record.table in ("", self.table_id) else None

    def _by_time(self, files: Iterable[tuple[str, tuple[str, int]]]) -> list[EpochRecord]:
        timed: list[tuple[int, str, int, EpochRecord]] = []
        newest: dict[str, int] = {}  # clock skew must not reorder a writer's epochs
        for path, (writer, epoch) in files:
            record = self._own(self._read(path))
            if record is not None:
                newest[writer] = max(newest.get(writer, 0), record.time_ms)
                timed.append((newest[writer], writer, epoch, record))
        return [record for *_, record in sorted(timed, key=lambda t: t[:3])]


def _staged_files(io: FileIO, root: str) -> list[tuple[str, tuple[str, int]]]:
    """(path, (writer, epoch)) of the staged records, by writer and epoch."""
    writers = sorted(s.name for s in io.list(root) if s.is_dir)
    return [(path, (writer, epoch)) for writer in writers for path, epoch in _epoch_files(io, f"{root}/{writer}")]


def _epoch_files(io: FileIO, directory: str) -> list[tuple[str, int]]:
    names = [s.name for s in io.list(directory)]
    epochs = sorted(int(n[len(_PREFIX) :]) for n in names if n.startswith(_PREFIX) and n[len(_PREFIX) :].isdigit())
    return [(f"{directory}/{_PREFIX}{epoch:019d}", epoch) for epoch in epochs]

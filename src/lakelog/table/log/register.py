"""Registers a writer of the log before its first record: the lower bound of its rows, and its lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.errors import Fenced, InvalidRequest, NotFound
from lakelog.io.clock import Moment
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore.clients import reader_for
from lakelog.options.log import CHANGES, LOG_CONTENT
from lakelog.paimon.types.checked_values import offsets_of, read_as
from lakelog.paimon.types.json_record import text_keys
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER
from lakelog.table.model.registrations import STREAM

_TRIES: Final = 3
"""Number of times that a writer registers: another process may remove it meanwhile."""


def register_writer(table: DynamicTable, writer: str, kind: str = STREAM, in_use: bool = False) -> dict[int, int]:
    """Stores, once per writer, the end of the log before its first record; returns it (bucket → offset).

    Called before the first append of a writer, by a task or by the driver; healing never reads before this point. From
    then on this process renews the writer's lease, with ``in_use`` until the writer is dropped. ``kind`` is STREAM or
    BATCH. Raises Unavailable, TableReplaced; Fenced if other processes take the writer over each time.
    """
    if table.log is None:
        return {}
    for _ in range(_TRIES):
        table.check_identity()
        ends = reader_for(table.log).end_offsets()
        renewed: Moment | None = Moment.now()
        try:
            if not table.registered.register(writer, ends, kind, table.lease_ms):
                ends, renewed = table.registered.origin(writer), None
            kept = table.registered.keep(writer, kind, table.lease_ms, renewed)
        except NotFound:  # this process was suspended, and another one has removed what there was
            continue
        if in_use:
            kept.begin_use()
        return ends
    raise Fenced(
        f"writer {writer} of table {table.name} cannot register: other processes take it for dead each time, and none "
        "of these rows are in the table. Check the clock of this machine, then write the rows again"
    )


def check_lease(table: DynamicTable, writer: str) -> None:
    """Renews the lease of a writer if this process was delayed; called before records are appended.

    Raises Fenced for a writer that was considered dead and forgotten in the meantime; Unavailable.
    """
    kept = table.registered.kept(writer)
    if kept is not None and not kept.is_good():
        raise Fenced(
            f"writer {writer} of table {table.name} did not renew its lease for 'log.writer-timeout' "
            f"({kept.lease.duration_ms / 1000:g} s), and its rows were aborted: write them again"
        )


def register_follower(table: DynamicTable) -> None:
    """Stores, once, that the table receives rows without a writer, with the start of the log as their lower bound.

    Called before the first of them may be written, and when a follower starts. Until its first snapshot, union reads
    and ``latest-full`` use it to know that such rows are in no file. Raises InvalidRequest for a log of changes.
    """
    if table.publishes:
        raise InvalidRequest(
            f"the log of table {table.name} has the changes of its files ('{LOG_CONTENT.key}' = '{CHANGES}'): rows "
            f"cannot be written to the log first. Write them with write_stream or INSERT"
        )
    if table.log is not None:
        table.registered.register(FOLLOWER, reader_for(table.log).first_offsets())


@dataclass(frozen=True)
class NamedReader:
    """A reader with a ``consumer-id``: its next offset in each bucket, and the time of its last report.

    ``moved_ms`` is in ms since 1970.
    """

    name: str
    offsets: Mapping[int, int]
    moved_ms: int


@dataclass(frozen=True)
class NamedReaders:
    """The named readers of one table's log (``<table>/lakelog/readers/<name>``).

    A reader of committed rows also needs earlier records than its position: those of epochs that commit after it. It
    stores where they begin, too (``<table>/lakelog/reader-needs/<name>``).
    """

    io: FileIO
    table_path: str

    @property
    def _root(self) -> str:
        return f"{self.table_path}/lakelog/readers"

    @property
    def _needs(self) -> str:
        return f"{self.table_path}/lakelog/reader-needs"

    def record(self, name: str, offsets: Mapping[int, int], needs: Mapping[int, int] | None = None) -> None:
        """Stores a reader's position, and the first records that it needs, if these are before the position.

        Raises InvalidRequest for a name that is not a valid file name.
        """
        _check_name(name)
        if needs is not None:
            self.io.write(f"{self._needs}/{name}", orjson.dumps(text_keys(needs)))
        self.io.write(f"{self._root}/{name}", orjson.dumps(text_keys(offsets)))

    def needed(self, name: str) -> Mapping[int, int] | None:
        """The first records that a reader needs, as it stored them last; None if it has stored none."""
        try:
            return read_as(self.io, f"{self._needs}/{name}", offsets_of)
        except NotFound:
            return None

    def floors(self) -> Sequence[Mapping[int, int]]:
        """The offsets that readers need: no reader needs a record below all of them."""
        readers = self.list()
        needs = (self.needed(reader.name) for reader in readers)
        return [*(reader.offsets for reader in readers), *(need for need in needs if need is not None)]

    def delete(self, name: str) -> bool:
        """Forgets a reader; returns False if there is none of this name. Raises InvalidRequest as ``record``."""
        _check_name(name)
        is_there = self.io.exists(f"{self._root}/{name}")
        for path in (f"{self._root}/{name}", f"{self._needs}/{name}"):
            self.io.delete(path)
        return is_there

    def list(self) -> Sequence[NamedReader]:
        """All readers, by name."""
        out = []
        for status in self.io.list(self._root):
            try:
                offsets = read_as(self.io, status.path, offsets_of)
            except NotFound:
                continue
            out.append(NamedReader(status.name, offsets, status.mtime_ms))
        return sorted(out, key=lambda reader: reader.name)


def _check_name(name: str) -> None:
    if not name.strip() or "/" in name or "\\" in name:
        raise InvalidRequest(f"'{name}' cannot be the name of a reader: it must not be blank or contain '/' or '\\'")

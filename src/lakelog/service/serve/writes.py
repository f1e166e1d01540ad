"""Rows from programs: streams whose batches are acknowledged when they are durable, and whole ingests.

A stream names a writer, and each batch an epoch, a number that grows. The epoch is the position of a
``PositionedWriter``, which is committed with the rows. So a batch that is sent again, after the death of the client or
of the server, is known by its epoch, and its rows are in the table once. The writer belongs to the user: nobody else
can use or fence it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import (
    AlreadyExists,
    Fenced,
    InvalidRequest,
    InvalidSchema,
    LakelogError,
    NotAllowed,
    UnsupportedFeature,
)
from lakelog.io.arrow_messages import check_plain
from lakelog.io.quantities import format_bytes
from lakelog.service.access.identity import Identity
from lakelog.service.serve.settings import ServeLimits
from lakelog.service.serve.statements import Statements
from lakelog.sql.runtime.statement import Privilege
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import is_undone
from lakelog.table.write.positioned_writer import PositionedWriter
from lakelog.table.write.table_writer import TableWriter

_WRITER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST_EPOCH: Final = (1 << 63) - 1
_FAIL, _REPLACE = 1, 3
"""Numbers of ``TableExistsOption`` in ``CommandStatementIngest``."""

Key = tuple[Identifier, str]


@dataclass
class _OpenWriter:
    """A writer of one table, between its streams; the newest stream has it."""

    table: DynamicTable
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    writer: PositionedWriter | None = None
    stream: object = None

    def opened(self) -> PositionedWriter:
        """The writer, with the position that the table has. Raises InvalidRequest after a rollback."""
        if self.writer is None:
            if is_undone(self.table, self.name):
                raise InvalidRequest(
                    f"table {self.table.name} was rolled back, and has lost rows of writer '{self.name}': use another "
                    "writer id"
                )
            self.writer = PositionedWriter(self.table, self.name)
        return self.writer

    def discard(self) -> None:
        """Forgets the writer after a failure; the next batch reads the position again."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()


class WriteStream:
    """The batches of one client under a writer id, in the order of their epochs."""

    def __init__(self, opened: _OpenWriter, limits: ServeLimits) -> None:
        self._opened, self._limits = opened, limits
        with opened.lock:
            opened.stream = self
            self.committed = _epoch_of_position(opened.opened().position)
            """The newest epoch in the table, -1 without one."""

    def write(self, batch: pa.RecordBatch, epoch: int) -> bool:
        """Writes a batch; True if it is durable now, False if it was before.

        Raises InvalidRequest for an epoch that is none, Fenced after the start of another stream with this writer id,
        and the errors of ``PositionedWriter``.
        """
        opened = self._opened
        with opened.lock:
            if opened.stream is not self:
                raise Fenced("another stream with this writer id has begun, and continues: end this one")
            if epoch <= self.committed:
                return False
            if batch.nbytes > self._limits.batch_bytes:
                raise InvalidRequest(
                    f"the batch has {format_bytes(batch.nbytes)}, and the maximum is "
                    f"{format_bytes(self._limits.batch_bytes)}: send smaller ones"
                )
            try:
                writer = opened.opened()
                writer.write(batch)
                writer.commit(str(epoch))
            except BaseException:
                opened.discard()
                raise
            self.committed = epoch
            return True


class Writes:
    """The writers of a server."""

    def __init__(self, statements: Statements, limits: ServeLimits) -> None:
        self._statements, self._limits = statements, limits
        self._writers: OrderedDict[Key, _OpenWriter] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def stream(self, identity: Identity, request: Any, schema: pa.Schema) -> Iterator[WriteStream]:
        """Context of a stream: ``request`` has ``table`` and ``writer``.

        Raises NotAllowed without the role, InvalidRequest, InvalidSchema, NotFound, and the errors of a writer.
        """
        if not isinstance(request, Mapping) or set(request) != {"table", "writer"}:
            raise InvalidRequest('a write is {"write": {"table": "db.t", "writer": "name"}}')
        writer = request["writer"]
        if not isinstance(writer, str) or not _WRITER.fullmatch(writer):
            raise InvalidRequest(
                f"writer = {str(writer)[:80]!r} is no writer id: use letters, digits and . _ -, at most 64"
            )
        identifier = self._identifier(identity, request["table"])
        _check_schema(schema)
        key = (identifier, f"serve~{identity.user}~{writer}")
        with self._lock:
            opened = self._writers.get(key) or _OpenWriter(self._opened(identity, identifier), key[1])
            self._writers[key] = opened
            self._writers.move_to_end(key)
        stream = WriteStream(opened, self._limits)
        try:
            yield stream
        except LakelogError:
            with self._lock:
                if self._writers.get(key) is opened and opened.writer is None:
                    del self._writers[key]  # the table may have changed: the next stream opens it again
            raise
        finally:
            with opened.lock:
                if opened.stream is stream:
                    opened.stream = None
            self._end_unused()

    def ingest(self, identity: Identity, command: Any, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int:
        """Writes all rows of an ingest as one commit; returns their number.

        Raises UnsupportedFeature for an ingest that creates or replaces, and the errors of a writer.
        """
        identifier = self._identifier(identity, command.table, command.schema, command.catalog)
        exists = command.table_definition_options.if_exists
        if command.temporary or exists == _REPLACE:
            raise UnsupportedFeature("an ingest adds rows to a table that is there: use the mode 'append'")
        table = self._opened(identity, identifier)
        if exists == _FAIL:
            raise AlreadyExists(f"table '{identifier}' exists: use the mode 'append'")
        _check_schema(schema)
        count = 0
        with TableWriter(table, may_reject=True) as writer:
            for batch in batches:
                writer.write(batch)
                count += batch.num_rows
        return count

    def close(self) -> None:
        """Makes snapshots of the rows that wait for one, and ends the writers."""
        with self._lock:
            opened = list(self._writers.values())
            self._writers.clear()
        for one in opened:
            with one.lock:
                _end(one)

    def _identifier(self, identity: Identity, table: Any, database: str = "", catalog: str = "") -> Identifier:
        if identity.role < Privilege.WRITE:
            raise NotAllowed(
                f"a write needs the role '{Privilege.WRITE.word}'; {identity.user} has '{identity.role.word}'"
            )
        if not isinstance(table, str) or not table or "$" in table:
            raise InvalidRequest(f"table = {str(table)[:80]!r} is no table that takes rows: name it as db.table")
        session = self._statements.session(identity.role)
        if not database and not catalog:
            return session.identifier(table)
        return Identifier(database or session.database, table, session.catalogs.need(catalog or session.catalogs.first))

    def _opened(self, identity: Identity, identifier: Identifier) -> DynamicTable:
        table = self._statements.session(identity.role).tables.open(identifier)
        table.check_rows_writable()
        table.check_writable()
        return table

    def _end_unused(self) -> None:
        """Ends the writers that were used longest ago, beyond the maximum number of streams."""
        with self._lock:
            unused = [key for key, one in self._writers.items() if one.stream is None]
            over = [self._writers.pop(key) for key in unused[: max(0, len(self._writers) - self._limits.writes)]]
        for one in over:
            with one.lock:
                _end(one)


def _end(opened: _OpenWriter) -> None:
    writer, opened.writer = opened.writer, None
    if writer is not None:
        with suppress(LakelogError):  # what is decided waits for the next process
            writer.end()


def epoch_of(metadata: pa.Buffer | None) -> int:
    """The epoch of a batch, from its ``app_metadata``: a number as text. Raises InvalidRequest."""
    text = b"" if metadata is None else metadata.to_pybytes()[:40]
    if not text.isdigit() or int(text) > _LARGEST_EPOCH:
        raise InvalidRequest(
            f"app_metadata = {text!r} of a batch is no epoch: send a number as text that grows from batch to batch"
        )
    return int(text)


def _epoch_of_position(position: str) -> int:
    return int(position) if position else -1


def _check_schema(schema: pa.Schema) -> None:
    try:
        check_plain(schema)
    except pa.ArrowInvalid as wrong:
        raise InvalidSchema(f"{wrong}: cast it before writing") from None

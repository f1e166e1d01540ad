"""The changes of a slot as a stream: PostgreSQL's replication protocol on libpq's own functions.

psycopg 3 has no class for it, but its ``pq`` module has the functions of libpq that ``pg_recvlogical`` uses. The server
sends each transaction after its commit, holds large ones on its own disk, and waits if this side does not read.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator
from typing import Final

from psycopg import pq

from lakelog.errors import InvalidRequest, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.service.ingest.connection import Server
from lakelog.service.ingest.pgoutput import Message, decode
from lakelog.service.ingest.position import lsn_text

_DATA_HEADER: Final = 25
"""Length of a data message before pgoutput's own message."""
_STATUS: Final = struct.Struct(">cqqqqB")
_EPOCH_MS: Final = 946_684_800_000
_STATUS_EVERY_S: Final = 5.0
"""Longest interval of reports to the server, which ends a connection after ``wal_sender_timeout`` without one."""
_REPORTS_PER_TIMEOUT: Final = 4


class ReplicationStream:
    """The messages of a slot from its confirmed position on; use it as a context manager."""

    def __init__(self, server: Server, slot: str, publication: str) -> None:
        self._server = server
        self._connection = server.connect(replication=True)
        self._pg = self._connection.pgconn
        self._confirmed, self._reported_s = 0, float("-inf")
        self.received = 0  # every transaction that commits before it has been read
        self.sent_end = 0  # the end of the server's WAL, as it was sent last
        self._every_s = self._report_interval_s()
        command = (
            f"START_REPLICATION SLOT {_quoted(slot)} LOGICAL 0/0 "
            f"(proto_version '1', publication_names '{_quoted(publication)}')"
        )
        try:
            result = self._pg.exec_(command.encode())
            if result.status != pq.ExecStatus.COPY_BOTH:
                text = result.error_message.decode(errors="replace").strip().splitlines()
                what = text[0] if text else "the server refused to start"
                kind = InvalidRequest if "can no longer get changes" in what else Unavailable
                raise kind(f"slot '{slot}' of PostgreSQL {server.name}: {what}")
        except BaseException:
            self._connection.close()
            raise

    def read(self, wait_s: float) -> Iterator[Message]:
        """The messages that have arrived, after a wait for the first one. Raises Unavailable."""
        with self._server.errors():
            until_s, has_message, has_read = monotonic_s() + wait_s, False, False
            while True:
                size, data = self._pg.get_copy_data(1)
                if size > 0:
                    has_message = True
                    message = self._message(bytes(data))
                    if message is not None:
                        yield message
                    continue
                if size < 0:
                    raise Unavailable(f"PostgreSQL {self._server.name} has ended the stream: {self._why()}")
                left_s = until_s - monotonic_s()
                if has_message or (left_s <= 0 and has_read):
                    return
                select.select([self._pg.socket], [], [], max(0.0, min(left_s, self._every_s)))
                self._pg.consume_input()
                has_read = True
                self.report()

    def confirm(self, lsn: int) -> None:
        """Reports that everything before an LSN is in the tables, so that the server may forget it."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self.report(is_due=True)

    def report(self, is_due: bool = False, asks: bool = False) -> None:
        """Sends the confirmed position if due; ``asks`` for the server's own position."""
        if not (is_due or asks or monotonic_s() > self._reported_s + self._every_s):
            return
        self._reported_s = monotonic_s()
        time_us = (now_ms() - _EPOCH_MS) * 1000
        status = _STATUS.pack(b"r", self._confirmed, self._confirmed, self._confirmed, time_us, asks)
        with self._server.errors():
            self._pg.put_copy_data(status)
            while self._pg.flush():
                select.select([], [self._pg.socket], [], 1.0)

    def _report_interval_s(self) -> float:
        with self._server.errors():
            setting = "SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout'"
            (timeout_ms,) = self._connection.execute(setting).fetchone() or (0,)
        return min(_STATUS_EVERY_S, timeout_ms / 1000 / _REPORTS_PER_TIMEOUT) if timeout_ms else _STATUS_EVERY_S

    def _message(self, data: bytes) -> Message | None:
        kind = data[:1]
        if kind == b"k":
            self.received = max(self.received, int.from_bytes(data[1:9], "big"))
            self.sent_end = max(self.sent_end, self.received)
            if data[17]:
                self.report(is_due=True)
            return None
        self.sent_end = max(self.sent_end, int.from_bytes(data[9:17], "big"))
        return decode(data[_DATA_HEADER:])

    def _why(self) -> str:
        result = self._pg.get_result()
        text = self._pg.get_error_message() if result is None else result.error_message.decode(errors="replace")
        lines = text.strip().splitlines()
        return lines[0] if lines else f"after {lsn_text(self.received)}"

    def __enter__(self) -> ReplicationStream:
        return self

    def __exit__(self, *error: object) -> None:
        self._pg.finish()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

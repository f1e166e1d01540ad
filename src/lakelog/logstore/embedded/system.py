"""The embedded log: one SQLite file in WAL mode, for all processes of one machine, without a server.

A row is a record batch (``layout``), so that an append costs by batch and not by record. With ``synchronous=FULL`` an
acknowledged record survives a power loss.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from lakelog.errors import AlreadyExists, InvalidRequest
from lakelog.io.machine import machine_identity
from lakelog.io.names import new_uuid
from lakelog.io.storage.storage_clock import touched_ms
from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogServer, LogSystem
from lakelog.logstore.embedded.appender import EmbeddedAppender
from lakelog.logstore.embedded.file import EmbeddedFile, connected, translated_errors
from lakelog.logstore.embedded.layout import create_tables, date_future, trim
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.logstore.local_log import expiry_of, no_topic, probe


class EmbeddedLogSystem(LogSystem):
    """Logs in SQLite files."""

    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        if adopt:
            raise no_topic(f"the file {location.address}")
        if os.path.exists(location.address):
            return self._adopt(location)
        new = replace(location, log_id=location.log_id or new_uuid(), machine=machine_identity())
        part = f"{location.address}.{new_uuid()}.tmp"
        with translated_errors(location):
            os.makedirs(os.path.dirname(location.address), exist_ok=True)
            with contextlib.closing(sqlite3.connect(part)) as database:
                # stored in the file, so that no later client needs the lock of this change
                database.execute("pragma journal_mode = wal")
                meta = {"log_id": new.log_id, "machine": new.machine, "buckets": str(new.buckets)}
                create_tables(database, meta, new.buckets)
            try:
                os.link(part, location.address)
            except FileExistsError:
                return self._adopt(location)
            finally:
                os.unlink(part)
        return new

    def set_retention(self, location: LogLocation) -> None:
        """Does nothing, because appenders trim by the retention of their location."""

    def expire(self, location: LogLocation, floors: Mapping[int, int]) -> None:
        file = EmbeddedFile(location)
        with translated_errors(location), contextlib.closing(file), file.database as database:
            database.execute("begin immediate")
            now_ms = touched_ms(location.address)
            date_future(database, now_ms)
            trim(database, file.has_rows, *expiry_of(location, floors, now_ms))

    def drop(self, location: LogLocation) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(location.address + suffix)

    def check(self, location: LogLocation, spread: bool = False) -> None:
        if spread:
            raise InvalidRequest(
                "an embedded log works on one machine only, and this Spark is spread over machines: "
                "create the table with 'log-store.type' = 'files' or 'log-store.address' = '<kafka bootstrap servers>'"
            )
        EmbeddedFile(location).close()

    def probe(self, location: LogLocation) -> LogServer:
        return probe(self, location, "embedded log")

    def appender(self, location: LogLocation) -> LogAppender:
        return EmbeddedAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return EmbeddedReader(location)

    def _adopt(self, location: LogLocation) -> LogLocation:
        with translated_errors(location), contextlib.closing(connected(location)) as database:
            meta = dict(database.execute("select key, value from meta"))
            used = database.execute("select count(*) from ends where next > 0").fetchone()[0]
        if used or int(meta["buckets"]) != location.buckets:
            raise AlreadyExists(
                f"{location.address} is the embedded log of another table ({meta['buckets']} log partitions): "
                f"choose another 'log-store.address'"
            )
        return replace(location, log_id=meta["log_id"], machine=meta["machine"])

"""Logs in files of the table's storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import orjson

from lakelog.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from lakelog.io.names import new_uuid
from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogServer, LogSystem
from lakelog.logstore.files.appender import FilesAppender
from lakelog.logstore.files.chain import LogIdentity, SegmentChain, read_identity, storage_of
from lakelog.logstore.files.reader import FilesReader
from lakelog.logstore.local_log import expiry_of, no_topic, probe
from lakelog.options.log import LOG_ADDRESS


class FilesLogSystem(LogSystem):
    """Logs that need no server and no machine of their own: local disks, HDFS, object stores."""

    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        if adopt:
            raise no_topic(f"in '{location.address}'")
        io = storage_of(location)
        new = replace(location, log_id=new_uuid())
        io.write(f"{new.address}/{new.log_id}/hint", b"")  # the directory, which no later client creates
        content = orjson.dumps({"layout": 1, "log_id": new.log_id, "buckets": new.buckets})
        try:
            if io.create(f"{new.address}/log.json", content) or _found(location)["log_id"] == new.log_id:
                return new
        except CommitUnknown as why:
            try:
                if _found(location)["log_id"] == new.log_id:
                    return new
            except NotFound:
                raise Unavailable(f"the log in '{location.address}' may or may not have been created: {why}") from why
        io.delete_dir(f"{new.address}/{new.log_id}")
        return self._adopt(location)

    def set_retention(self, location: LogLocation) -> None:
        """Checks the log only, because appenders expire segments by the retention of their location."""
        self.check(location)

    def expire(self, location: LogLocation, floors: Mapping[int, int]) -> None:
        segments = SegmentChain(location)
        segments.expire(*expiry_of(location, floors, segments.stored_now_ms()))

    def drop(self, location: LogLocation) -> None:
        storage_of(location).delete_dir(location.address)

    def check(self, location: LogLocation, spread: bool = False) -> None:
        read_identity(location)

    def probe(self, location: LogLocation) -> LogServer:
        return probe(self, location, "log in files")

    def appender(self, location: LogLocation) -> LogAppender:
        return FilesAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return FilesReader(location)

    def _adopt(self, location: LogLocation) -> LogLocation:
        identity = _found(location)
        adopted = replace(location, log_id=identity["log_id"])
        if identity["buckets"] != location.buckets or any(SegmentChain(adopted).ends):
            raise AlreadyExists(
                f"'{location.address}' has the log of another table ({identity['buckets']} log partitions): "
                f"choose another '{LOG_ADDRESS.key}'"
            )
        return adopted


def _found(location: LogLocation) -> LogIdentity:
    """The identity of the existing log. Raises NotFound."""
    return read_identity(replace(location, log_id=""))

"""Records for tests of log systems, and what is done with them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from lakelog.logstore.base import LogAppender, LogLocation, LogReader, Records

NewLocation = Callable[..., LogLocation]


def records(values: list[bytes | None], headers: bytes | list[bytes] = b"1|d|w|0|a") -> Records:
    keys = [None if v is None else b"key of " + v for v in values]
    return Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), headers)


def append(appender: LogAppender, values: list[bytes | None], bucket: int = 0) -> list[int]:
    pending = appender.append(bucket, records(values))
    appender.flush()
    return pending.offsets().to_pylist()


def everything(reader: LogReader, bucket: int = 0) -> list[bytes | None]:
    first, end = reader.first_offsets([bucket])[bucket], reader.end_offsets([bucket])[bucket]
    return reader.read(bucket, first, end).column("value").to_pylist()


class soon:
    """The body ends within 25 seconds (the promise is about 10; the machine may be busy)."""

    def __enter__(self) -> None:
        self.start = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        assert time.monotonic() - self.start < 100

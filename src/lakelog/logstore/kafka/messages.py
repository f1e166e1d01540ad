"""Messages of a log's client as a table of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.logstore.base import RECORDS_SCHEMA
from lakelog.logstore.protocol.header import HEADER_KEY


def records_table(messages: Sequence[Any]) -> pa.Table:
    """Messages of one bucket as RECORDS_SCHEMA, in order.

    Called with what a client's ``consume`` gave: each message has offset(), timestamp(), key(), value(), headers().
    """
    offsets = np.fromiter((record_offset(m) for m in messages), np.int64, len(messages))
    times = np.fromiter((m.timestamp()[1] for m in messages), np.int64, len(messages))
    keys = pa.array([m.key() for m in messages], pa.large_binary())
    values = pa.array([m.value() for m in messages], pa.large_binary())
    headers = pa.array([_header(m) for m in messages], pa.binary())
    return pa.Table.from_arrays([pa.array(offsets), pa.array(times), keys, values, headers], schema=RECORDS_SCHEMA)


def record_offset(message: Any) -> int:
    """The offset of a message that was sent."""
    offset: int = message.offset()
    return offset


def _header(message: Any) -> bytes | None:
    for name, value in message.headers() or ():
        if name == HEADER_KEY and isinstance(value, bytes):
            return value
    return None

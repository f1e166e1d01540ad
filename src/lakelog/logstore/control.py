"""Control records: a key-less record without a value that the protocol itself writes (RFC 2)."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa

from lakelog.logstore.base import Records
from lakelog.logstore.header import ABORT, BEGIN, COMMIT, encode_header


def begin_record(writer: str, epoch: int, attempt: str) -> Records:
    """Marks the first record of an attempt in a bucket."""
    return _control(encode_header(BEGIN, writer, epoch, attempt))


def commit_record(writer: str, epoch: int, accepted: Sequence[str], first_offset: int) -> Records:
    """Says that an epoch is in a snapshot, which attempts count, and where its records begin in this bucket."""
    extra = orjson.dumps({"accepted": list(accepted), "first": first_offset}).decode()
    return _control(encode_header(COMMIT, writer, epoch, "", extra=extra))


def abort_record(writer: str, epoch: int) -> Records:
    """Says that an epoch was taken back."""
    return _control(encode_header(ABORT, writer, epoch, ""))


def _control(header: bytes) -> Records:
    nothing = pa.nulls(1, pa.large_binary())
    return Records(nothing, nothing, header)

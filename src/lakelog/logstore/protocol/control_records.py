"""Control records: records of the protocol without key and value (RFC 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.logstore.base import Records
from lakelog.logstore.protocol.header import ABORT, BEGIN, COMMIT, decode_header, encode_header, of_kinds


@dataclass(frozen=True)
class Commit:
    """A commit record, which accepts the rows of these attempts between ``first`` and ``offset`` in its bucket."""

    offset: int
    writer: str
    epoch: int
    attempts: tuple[str, ...]
    first: int

    def data_attempts(self) -> set[tuple[str, int, str]]:
        """The attempts (writer, epoch, attempt) whose records the commit makes visible."""
        return {(self.writer, self.epoch, attempt) for attempt in self.attempts}


def begin_record(writer: str, epoch: int, attempt: str) -> Records:
    """Marks the first record of an attempt in a bucket."""
    return _control(encode_header(BEGIN, writer, epoch, attempt))


def commit_record(writer: str, epoch: int, accepted: Sequence[str], first_offset: int) -> Records:
    """Marks an epoch as committed, with its accepted attempts and the offset of its first record in this bucket."""
    extra = orjson.dumps({"accepted": list(accepted), "first": first_offset}).decode()
    return _control(encode_header(COMMIT, writer, epoch, "", extra=extra))


def commits_in(records: pa.Table) -> list[Commit]:
    """The commit records among records (RECORDS_SCHEMA), in order. Raises Corrupt for an unreadable one."""
    commits = of_kinds(records.select(["offset", "header"]), (COMMIT,))
    out = []
    for offset, header in zip(*(column.to_pylist() for column in commits.columns), strict=True):
        head = decode_header(header, offset)
        try:
            extra = orjson.loads(head.extra)
            out.append(Commit(offset, head.writer, head.epoch, tuple(extra["accepted"]), int(extra["first"])))
        except (ValueError, KeyError, TypeError) as why:
            raise Corrupt(
                f"the commit record at offset {offset} of the log has '{head.extra}', which is not a list of "
                "attempts and a first offset: check that the topic is lakelog's alone"
            ) from why
    return out


def accepted_by(extra: str) -> list[str]:
    """The attempts that a commit record accepts, by the last field of its header; none if it is unreadable."""
    try:
        return [str(name) for name in orjson.loads(extra)["accepted"]]
    except (ValueError, KeyError, TypeError):
        return []


def abort_record(writer: str, epoch: int) -> Records:
    """Marks an epoch as aborted."""
    return _control(encode_header(ABORT, writer, epoch, ""))


def _control(header: bytes) -> Records:
    nothing = pa.nulls(1, pa.large_binary())
    return Records(nothing, nothing, header)

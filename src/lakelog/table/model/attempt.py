"""The result of one task of one epoch: the attempt, its records in the log, its rows for the files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from lakelog.errors import Corrupt
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.types.checked_values import checked

ORDER_COLUMN = "_lakelog_order"
"""Column of an inline run: the order of the row in its bucket (log offset, or task number and row number)."""

KIND_COLUMN = "_lakelog_kind"
"""Column of an inline run: the row kind as a number (int8)."""
_END_MS: Final = 10**13
"""Time (ms since 1970) that no decision has; names have 13 digits of it."""


@dataclass(frozen=True)
class StagedRun:
    """Rows of one (partition, bucket) that an attempt has prepared for the file store.

    Either ``inline`` (an Arrow IPC stream of table columns plus the order, int64, and the kind, int8; rows in order) or
    ``files`` (level-0 data files whose sequence numbers are ``order + delta``). ``schema_id`` is the schema of the
    inline rows; a file stores its own. With ``emits_changelog`` the rows belong in the table's changelog, if any;
    ``changelog`` are the changelog files for ``files``, with the same numbering. ``retractions`` are inline rows of
    kind -U without a later insertion of their key.
    """

    partition: bytes
    bucket: int
    row_count: int
    inline: bytes = b""
    files: tuple[DataFileMeta, ...] = ()
    delta: int = 0
    schema_id: int = 0
    emits_changelog: bool = True
    changelog: tuple[DataFileMeta, ...] = ()
    retractions: bool = False

    @property
    def whole_files(self) -> tuple[DataFileMeta, ...]:
        """The files with every written row, including those that a later one replaces."""
        return self.changelog or self.files


@dataclass(frozen=True)
class BucketAppend:
    """An attempt's records in one bucket of the log (``begin`` included): first offset and entry count."""

    bucket: int
    first_offset: int
    entry_count: int


_REJECTED_FILE: Final = re.compile(r"[0-9a-f-]{36}\.parquet")


@dataclass(frozen=True)
class RejectedRows:
    """Rows that an attempt left out: their number, and the name of the file that holds them ("": none is kept).

    ``time_ms`` is the first decision about them (ms since 1970), 0 if this attempt is the first that leaves them out.
    """

    file: str
    rows: int
    time_ms: int = 0

    @staticmethod
    def checked(file: Any, rows: Any, time_ms: Any) -> RejectedRows:
        """Rows whose metadata was read from a file. Raises Corrupt, also for a name that is a path."""
        if file != "":
            checked_rejected_file(file)
        part = checked(RejectedRows(file, rows, time_ms))
        if part.rows < 1 or not 0 <= part.time_ms < _END_MS:
            raise Corrupt(f"{part.rows} rejected rows of the time {part.time_ms} cannot be")
        return part


def checked_rejected_file(name: Any) -> str:
    """The name of a file of rejected rows. Raises Corrupt for any other value, such as a path."""
    if not isinstance(name, str) or not _REJECTED_FILE.fullmatch(name):
        raise Corrupt(f"{str(name)[:100]!r} is not the name of a file of rejected rows")
    return name


@dataclass(frozen=True)
class AttemptResult:
    """The commit message of one task, valid if the driver accepts this attempt (RFC 2).

    ``row_count`` is the number of rows that the task received. With ``replay`` it wrote none of them, because the epoch
    was decided already. ``watermark`` (ms since 1970) is that of its rows, with ``watermark.column``. ``log_bytes`` are
    the bytes of keys and values that it appended to the log, for metrics, and ``kinds`` the rows of each row kind, for
    the counts of changed rows; no epoch record stores them. ``rejected`` are the rows that it left out (``row_count``
    includes them), ``replays`` the files of rejected rows that it took its rows from (RFC 16).
    ``position`` is that of the writer's source after these rows, in the writer's own form.
    """

    writer: str
    epoch: int
    attempt: str
    appends: tuple[BucketAppend, ...] = ()
    runs: tuple[StagedRun, ...] = ()
    row_count: int = 0
    replay: bool = False
    watermark: int | None = None
    log_bytes: int = 0
    kinds: tuple[int, ...] = (0, 0, 0, 0)
    rejected: tuple[RejectedRows, ...] = ()
    replays: tuple[str, ...] = ()
    position: str = ""

    @property
    def written(self) -> int:
        """The number of rows that it has written."""
        return self.row_count - sum(one.rows for one in self.rejected)

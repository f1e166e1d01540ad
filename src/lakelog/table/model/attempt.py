"""What one task of one epoch did: the attempt, its records in the log, its rows for the files."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.paimon.metadata.data_file import DataFileMeta

ORDER_COLUMN = "_lakelog_order"
"""Column of an inline run: the order of the row in its bucket (log offset, or task number and row number)."""

KIND_COLUMN = "_lakelog_kind"
"""Column of an inline run: the row kind as a number (int8)."""


@dataclass(frozen=True)
class StagedRun:
    """Rows of one (partition, bucket) that an attempt has made ready for the file store.

    Either ``inline`` (an Arrow IPC stream of table columns plus the order, int64, and the kind, int8; rows in order) or
    ``files`` (level-0 data files whose sequence numbers are ``order + delta``). ``schema_id`` is the schema of the
    inline rows; a file knows its own. ``tells_changes``: the rows belong into the table's changelog, if it has one;
    ``changelog`` are the changelog files beside ``files``, numbered like them. ``retractions``: inline rows that are
    -U without an insertion of their key behind them.
    """

    partition: bytes
    bucket: int
    row_count: int
    inline: bytes = b""
    files: tuple[DataFileMeta, ...] = ()
    delta: int = 0
    schema_id: int = 0
    tells_changes: bool = True
    changelog: tuple[DataFileMeta, ...] = ()
    retractions: bool = False

    @property
    def whole_files(self) -> tuple[DataFileMeta, ...]:
        """The files that have every row that was written, also those that a later one replaces."""
        return self.changelog or self.files


@dataclass(frozen=True)
class BucketAppend:
    """What an attempt appended to one bucket of the log (``begin`` included): its first offset, its entries."""

    bucket: int
    first_offset: int
    entry_count: int


@dataclass(frozen=True)
class AttemptResult:
    """The commit message of one task: what counts if the driver accepts this attempt (RFC 2).

    ``row_count`` is the number of rows that the task got. With ``replay`` it left them out, because the epoch was
    decided already. ``watermark`` (ms since 1970) is that of its rows, with ``watermark.column``. ``log_bytes`` are
    those of the keys and values that it appended to the log, for who counts them; no epoch record keeps them.
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

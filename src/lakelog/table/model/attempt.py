"""The result of one task of one epoch: the attempt, its records in the log, its rows for the files."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.paimon.metadata.data_file import DataFileMeta

ORDER_COLUMN = "_lakelog_order"
"""Column of an inline run: the order of the row in its bucket (log offset, or task number and row number)."""

KIND_COLUMN = "_lakelog_kind"
"""Column of an inline run: the row kind as a number (int8)."""


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


@dataclass(frozen=True)
class RejectedRows:
    """Rows that an attempt left out: their number, and the name of the file that holds them ("": none is kept)."""

    file: str
    rows: int


@dataclass(frozen=True)
class AttemptResult:
    """The commit message of one task, valid if the driver accepts this attempt (RFC 2).

    ``row_count`` is the number of rows that the task received. With ``replay`` it wrote none of them, because the epoch
    was decided already. ``watermark`` (ms since 1970) is that of its rows, with ``watermark.column``. ``log_bytes`` are
    the bytes of keys and values that it appended to the log, for metrics, and ``kinds`` the rows of each row kind, for
    the counts of changed rows; no epoch record stores them. ``rejected`` are the rows that it left out (``row_count``
    includes them), ``replays`` the entries of rejected rows that it took its rows from (RFC 16).
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
    rejected: RejectedRows | None = None
    replays: tuple[str, ...] = ()

    @property
    def written(self) -> int:
        """The number of rows that it has written."""
        return self.row_count - (0 if self.rejected is None else self.rejected.rows)

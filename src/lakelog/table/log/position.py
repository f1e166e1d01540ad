"""The position of a reader of the log, and the records it skips because a snapshot contains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.logstore.base import LARGEST_OFFSET
from lakelog.logstore.protocol.control_records import Commit
from lakelog.logstore.protocol.header import DATA, LOG_ONLY, as_foreign, encode_header, foreign_records
from lakelog.paimon.types.json_record import JsonRecord, int_keys, stored_as, text_keys

_HEADER = ("version", "kind", "writer", "epoch", "attempt", "ref", "sign", "extra")
_UNOWNED = encode_header(DATA, "", 0, "")


def headers_of(records: pa.Table) -> pl.DataFrame:
    """The parts of the headers, and ``offset``; a record without a header is a row without a writer.

    Raises Corrupt for an unknown version.
    """
    headers = pc.fill_null(as_foreign(records, foreign_records(records)).column("header"), _UNOWNED)
    texts = pl.DataFrame({"header": pl.from_arrow(headers), "offset": records.column("offset").to_numpy()})
    parts = pl.col("header").cast(pl.String).str.splitn("|", len(_HEADER)).struct.rename_fields(_HEADER)
    numbers = pl.col("epoch", "ref", "sign").cast(pl.Int64, strict=False)
    return texts.lazy().with_columns(parts).unnest("header").with_columns(numbers).collect()


@dataclass(frozen=True, kw_only=True)
class SnapshotCutover(JsonRecord):
    """The rule for log records that a reader skips because its snapshot contains them; picklable.

    ``starts`` are the offsets by bucket up to which the snapshot has the records of each writer that may have been
    active. They are offsets, not epochs, because redundant rows of sealed epochs and their corrections follow them.
    Only both together leave their keys correct (RFC 2). Records of all other writers below ``ends`` belong to finished
    writers: their rows are in the snapshot, or were taken back. Rows without a writer are new from ``unowned`` on. From
    ``log_only`` on, in keyed buckets with log-only rows, the reader returns all records again. Only the order of the
    log relates such rows to others of their key.
    """

    starts: Mapping[str, Mapping[int, int]]
    sealed: Mapping[str, int] = field(default_factory=dict)
    """The newest epoch in the snapshot, of the writers that have ``starts``."""
    ends: Mapping[int, int]
    unowned: Mapping[int, int] = field(default_factory=dict, metadata=stored_as("nobodys"))
    log_only: Mapping[int, int] = field(default_factory=dict)
    floor: Mapping[int, int] = field(default_factory=dict)
    """Lower bound of rows for a transactional reader that starts with the oldest records of the log."""
    log_starts: Mapping[int, int] = field(default_factory=dict, metadata=stored_as("held"))
    """The first offsets of the log at that time, the lower bound of repeated rows for a transactional reader.

    An earlier row is in the snapshot, or was log-only and has expired. Rows of new epochs are still read;
    ``scan.expired-offsets`` sets the handling of a reader that has lost them.
    """

    def kept(self, bucket: int, records: pa.Table) -> pa.Table:
        """The new records (RECORDS_SCHEMA, of one bucket)."""
        heads = headers_of(records)
        end = self.ends.get(bucket, 0)
        firsts = {writer: offsets.get(bucket, 0) for writer, offsets in self.starts.items()}
        firsts[""] = self.unowned.get(bucket, end)
        first = heads["writer"].replace_strict(firsts, default=end, return_dtype=pl.Int64)
        again = self.log_only.get(bucket, LARGEST_OFFSET + 1)
        is_new = (heads["offset"] >= first) | (heads["offset"] >= again)
        # If a writer ended between the reads of ends and writers, its rows below and their corrections are skipped.
        has_ended = ~heads["writer"].is_in(list(firsts)) & (heads["sign"].fill_null(0) != 0)
        is_new &= ~(has_ended & (heads["ref"] < min(end, again)))
        # The slower of two healers appends corrections after the seal. They cancel each other out, and may restore
        # values that are older than rows in the snapshot.
        in_snapshot = heads["epoch"] <= heads["writer"].replace_strict(self.sealed, default=-1, return_dtype=pl.Int64)
        is_late = in_snapshot & heads["sign"].is_not_null() & (heads["ref"] < first.clip(upper_bound=again))
        is_new &= ~is_late.fill_null(False)
        is_new |= heads["attempt"].str.starts_with(LOG_ONLY)
        return records if is_new.all() else records.filter(pa.array(is_new.to_numpy()))

    def counting(self, bucket: int, commit: Commit) -> Commit:
        """The commit record with its new attempts: all, or those of log-only rows."""
        sealed = self.sealed.get(commit.writer)
        if commit.epoch > sealed if sealed is not None else commit.first >= self.ends.get(bucket, 0):
            return commit
        again = replace(commit, first=max(commit.first, self.log_starts.get(bucket, 0)))
        if bucket in self.log_only and commit.offset >= self.log_only[bucket]:
            return again
        return replace(again, attempts=tuple(a for a in commit.attempts if a.startswith(LOG_ONLY)))


@dataclass(frozen=True)
class LogPosition:
    """The position of a reader of the log: offsets by bucket, and the snapshot that it reads first, if any.

    ``full`` is (snapshot id, next part), None after all parts; snapshot 0 is that of an empty table.
    """

    offsets: Mapping[int, int]
    full: tuple[int, int] | None = None
    switch: SnapshotCutover | None = None

    def at(self, offsets: Mapping[int, int]) -> LogPosition:
        """The position at later offsets of the log."""
        return replace(self, offsets=dict(offsets))

    def to_json(self, log_id: str) -> dict[str, Any]:
        """The checkpoint value; ``log_id`` identifies the log."""
        out: dict[str, Any] = {"log": log_id, "offsets": text_keys(self.offsets)}
        out |= {} if self.full is None else {"full": list(self.full)}
        return out if self.switch is None else out | {"switch": self.switch.to_values()}

    @staticmethod
    def from_json(value: Mapping[str, Any], log_id: str, name: str) -> LogPosition:
        """The reverse of ``to_json``. Raises InvalidRequest for a position in another log than that of ``name``."""
        if value.get("log") != log_id:
            raise InvalidRequest(
                f"the position belongs to another log ({value.get('log')}) than that of table {name} ({log_id}): the "
                "table was recreated, or this is the position or checkpoint of another table. Restart (a query: "
                "with a new checkpointLocation)."
            )
        full, switch = value.get("full"), value.get("switch")
        return LogPosition(
            int_keys(value["offsets"]),
            None if full is None else (int(full[0]), int(full[1])),
            None if switch is None else SnapshotCutover.from_values(switch),
        )

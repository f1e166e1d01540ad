"""The position of a reader of the log, and which records it leaves out because a snapshot gave it what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.logstore.header import DATA, LOG_ONLY, encode_header, parse_kinds

_HEADER = ("version", "kind", "writer", "epoch", "attempt", "ref", "sign", "extra")
_NOBODYS = encode_header(DATA, "", 0, "")


def headers_of(records: pa.Table) -> pl.DataFrame:
    """The parts of the headers, and ``offset``; the header of a record without one is that of a row of nobody.

    Raises Corrupt for an unknown version.
    """
    headers = pc.fill_null(records.column("header"), _NOBODYS)
    parse_kinds(headers)
    texts = pl.from_arrow(headers)
    assert isinstance(texts, pl.Series)
    parts = texts.cast(pl.String).str.splitn("|", len(_HEADER)).struct.rename_fields(_HEADER)
    numbers = pl.col("epoch", "ref", "sign").cast(pl.Int64, strict=False)
    offsets = pl.Series("offset", records.column("offset").to_numpy())
    return parts.struct.unnest().with_columns(numbers, offsets)


@dataclass(frozen=True)
class Switch:
    """Which records of the log a reader leaves out because its snapshot has what they say; picklable.

    ``sealed`` is the last epoch in the snapshot of every writer that may have been at work then. Records of all other
    writers below ``ends`` are of writers that had finished: their rows are in the snapshot, or were taken back. Rows of
    nobody are new from ``nobodys`` on.
    """

    ends: Mapping[int, int]
    sealed: Mapping[str, int]
    nobodys: Mapping[int, int] = field(default_factory=dict)

    def kept(self, bucket: int, records: pa.Table) -> pa.Table:
        """The records (RECORDS_SCHEMA, of one bucket) that say something new; corrections go with what they correct."""
        heads = headers_of(records)
        sealed = heads["writer"].replace_strict(dict(self.sealed), default=None, return_dtype=pl.Int64)
        end = self.ends.get(bucket, 0)
        is_new = (heads["epoch"] > sealed).fill_null(heads["offset"] >= end)
        is_new |= heads["attempt"].str.starts_with(LOG_ONLY)
        is_new |= (heads["writer"] == "") & (heads["offset"] >= self.nobodys.get(bucket, end))
        return records if is_new.all() else records.filter(pa.array(is_new.to_numpy()))

    def to_json(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"ends": _text_keys(self.ends), "sealed": dict(self.sealed), "nobodys": _text_keys(self.nobodys)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Switch:
        """The reverse of ``to_json``."""
        return Switch(_int_keys(value["ends"]), value["sealed"], _int_keys(value["nobodys"]))


@dataclass(frozen=True)
class LogPosition:
    """Where a reader of the log is: offsets by bucket, and what of a snapshot it reads before the log, if any.

    ``full`` is (snapshot id, the next of its parts), None once it has them all; snapshot 0 is that of an empty table.
    """

    offsets: Mapping[int, int]
    full: tuple[int, int] | None = None
    switch: Switch | None = None

    def at(self, offsets: Mapping[int, int]) -> LogPosition:
        """The position in the log further on."""
        return replace(self, offsets=dict(offsets))

    def to_json(self, log_id: str) -> dict[str, Any]:
        """What a checkpoint keeps; ``log_id`` says of which log."""
        out: dict[str, Any] = {"log": log_id, "offsets": _text_keys(self.offsets)}
        out |= {} if self.full is None else {"full": list(self.full)}
        return out if self.switch is None else out | {"switch": self.switch.to_json()}

    @staticmethod
    def from_json(value: Mapping[str, Any], log_id: str, name: str) -> LogPosition:
        """The reverse of ``to_json``. Raises InvalidRequest for the position in another log than that of ``name``."""
        if value.get("log") != log_id:
            raise InvalidRequest(
                f"the checkpoint belongs to another log ({value.get('log')}) than that of table {name} ({log_id}): the "
                f"table was made anew, or it is the checkpoint of another table. Use a new checkpointLocation."
            )
        full, switch = value.get("full"), value.get("switch")
        return LogPosition(
            _int_keys(value["offsets"]),
            None if full is None else (int(full[0]), int(full[1])),
            None if switch is None else Switch.from_json(switch),
        )


def _text_keys(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(b): o for b, o in sorted(offsets.items())}


def _int_keys(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(b): int(o) for b, o in offsets.items()}

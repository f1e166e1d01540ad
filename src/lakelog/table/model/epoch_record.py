"""The epoch record: the small file whose creation decides an epoch (RFC 2).

Layout::

    8 bytes   magic b"LAKELOG1"
    4 bytes   length of the header, unsigned little endian
    header    JSON, UTF-8: table, writer, epoch, time_ms, since {bucket: offset}, attempts [...], once, ended,
              proposed, run
    blobs     the inline runs, one after the other, in the order in which the header lists their lengths
"""

from __future__ import annotations

import base64
import dataclasses
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from lakelog.errors import Corrupt
from lakelog.options.formats import EPOCH_RECORD
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.paimon.types.checked_values import checked, parsing
from lakelog.paimon.types.json_record import int_keys, text_keys
from lakelog.table.model.attempt import AttemptResult, BucketAppend, RejectedRows, StagedRun, checked_rejected_file
from lakelog.table.model.single_writer import StreamingRun


@dataclass(frozen=True)
class EpochRecord:
    """The decision about one epoch: the accepted attempts and their results.

    ``since`` is, per bucket, the log offset up to which the earlier epochs had been verified. ``once`` marks the epoch
    of a batch writer, ``ended`` the last epoch of a writer that must not resume, ``run`` is the run of a streaming
    query. ``number`` is its position in the chain of a table with a key, 0 outside of a chain; it is the file name, not
    part of the content. ``proposed`` marks an epoch that is decided by a snapshot, not by this file (RFC 21). ``table``
    is the id of the table that it was made for, empty for one without. ``log`` is the generation of the log that its
    writer knew (RFC 27).
    """

    writer: str
    epoch: int
    time_ms: int
    attempts: tuple[AttemptResult, ...]
    since: Mapping[int, int] = field(default_factory=dict)
    once: bool = False
    ended: bool = False
    run: StreamingRun | None = None
    number: int = 0
    proposed: bool = False
    table: str = field(default="", compare=False)
    log: int = 0

    @property
    def accepted(self) -> frozenset[str]:
        """The ids of the attempts whose log records count."""
        return frozenset(a.attempt for a in self.attempts)

    @property
    def digest(self) -> str:
        """Eight characters that distinguish this decision from another one about the same epoch."""
        return f"{zlib.crc32(' '.join(sorted(self.accepted)).encode()):08x}"

    @property
    def row_count(self) -> int:
        """Rows that the accepted attempts received."""
        return sum(a.row_count for a in self.attempts)

    @property
    def position(self) -> str:
        """The position of the writer's source after this epoch, "" if it has none."""
        return next((a.position for a in self.attempts if a.position), "")

    @property
    def rejected_count(self) -> int:
        """The rows among them that were left out for the first time, not again by a replay."""
        return sum(part.rows for a in self.attempts for part in a.rejected if not part.time_ms)

    @property
    def buckets(self) -> frozenset[int]:
        """The buckets of the log that have rows of it."""
        return frozenset(p.bucket for a in self.attempts for p in a.appends)

    def without_log(self) -> EpochRecord:
        """The same decision without its place in the log, which is that of another log."""
        return replace(self, since={}, attempts=tuple(replace(a, appends=()) for a in self.attempts))

    def entries_appended(self, bucket: int) -> int:
        """Entries of the log that the accepted attempts appended to a bucket, ``begin`` included."""
        return sum(p.entry_count for a in self.attempts for p in a.appends if p.bucket == bucket)

    def to_bytes(self) -> bytes:
        """Serialises the record; the reverse is ``from_bytes``."""
        blobs: list[bytes] = []
        attempts = [_attempt_to_json(a, blobs) for a in self.attempts]
        header = orjson.dumps(
            {
                "table": self.table,
                "writer": self.writer,
                "epoch": self.epoch,
                "time_ms": self.time_ms,
                "since": text_keys(self.since),
                "attempts": attempts,
            }
            | ({"once": True} if self.once else {})
            | ({"ended": True} if self.ended else {})
            | ({"proposed": True} if self.proposed else {})
            | ({} if self.run is None else {"run": self.run.to_values()})
            | ({"log": self.log} if self.log else {})
        )
        return b"".join([EPOCH_RECORD, struct.pack("<I", len(header)), header, *blobs])

    @staticmethod
    def from_bytes(data: bytes, path: str, number: int = 0) -> EpochRecord:
        """Parses a record; raises Corrupt naming the path."""
        with parsing(path):
            return checked(EpochRecord._parsed(data, path, number))

    @staticmethod
    def _parsed(data: bytes, path: str, number: int) -> EpochRecord:
        if data[:8] != EPOCH_RECORD:
            raise Corrupt(f"{path}: not an epoch record (starts with {data[:8]!r}, expected {EPOCH_RECORD!r})")
        (length,) = struct.unpack_from("<I", data, 8)
        head = orjson.loads(data[12 : 12 + length])
        blobs = _Blobs(data, 12 + length)
        return EpochRecord(
            writer=head["writer"],
            epoch=head["epoch"],
            time_ms=head["time_ms"],
            since=int_keys(head["since"]),
            attempts=tuple(_attempt_from_json(a, blobs) for a in head["attempts"]),
            once=head.get("once", False),
            ended=head.get("ended", False),
            run=StreamingRun.from_values(head["run"]) if "run" in head else None,
            number=number,
            proposed=head.get("proposed", False),
            table=head.get("table", ""),
            log=head.get("log", 0),
        )


class _Blobs:
    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position

    def take(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        return self._data[start : self._position]


def _attempt_to_json(attempt: AttemptResult, blobs: list[bytes]) -> dict[str, Any]:
    runs = []
    for run in attempt.runs:
        blobs.append(run.inline)
        runs.append(
            {
                "partition": base64.b64encode(run.partition).decode(),
                "bucket": run.bucket,
                "row_count": run.row_count,
                "inline": len(run.inline),
                "files": [file_to_json(f) for f in run.files],
                "delta": run.delta,
                "schema_id": run.schema_id,
                "tells_changes": run.emits_changelog,
                "changelog": [file_to_json(f) for f in run.changelog],
            }
            | ({"retractions": True} if run.retractions else {})
        )
    appends = [[p.bucket, p.first_offset, p.entry_count] for p in attempt.appends]
    return {"attempt": attempt.attempt, "row_count": attempt.row_count, "appends": appends, "runs": runs} | {
        "writer": attempt.writer,
        "epoch": attempt.epoch,
        "watermark": attempt.watermark,
        **({"rejected": [[r.file, r.rows, r.time_ms] for r in attempt.rejected]} if attempt.rejected else {}),
        **({"replays": attempt.replays} if attempt.replays else {}),
        **({"position": attempt.position} if attempt.position else {}),
    }


def _attempt_from_json(json: dict[str, Any], blobs: _Blobs) -> AttemptResult:
    runs = tuple(
        StagedRun(
            partition=base64.b64decode(r["partition"]),
            bucket=r["bucket"],
            row_count=r["row_count"],
            inline=blobs.take(r["inline"]),
            files=tuple(file_from_json(f) for f in r["files"]),
            delta=r["delta"],
            schema_id=r.get("schema_id", 0),
            emits_changelog=r.get("tells_changes", True),
            changelog=tuple(file_from_json(f) for f in r.get("changelog", ())),
            retractions=r.get("retractions", False),
        )
        for r in json["runs"]
    )
    appends = tuple(BucketAppend(*p) for p in json["appends"])
    rejected = tuple(RejectedRows.checked(*one) for one in json.get("rejected", ()))
    return AttemptResult(
        json["writer"],
        json["epoch"],
        json["attempt"],
        appends,
        runs,
        json["row_count"],
        watermark=json.get("watermark"),
        rejected=rejected,
        replays=tuple(map(checked_rejected_file, json.get("replays", ()))),
        position=json.get("position", ""),
    )


def file_to_json(file: DataFileMeta) -> dict[str, Any]:
    """A data file's metadata as JSON values; bytes as base64 under ``{"b": …}``."""
    out = dataclasses.asdict(file)
    for key in ("key_stats", "value_stats"):
        out[key] = {k: _pack(v) for k, v in out[key].items()}
    return {k: _pack(v) for k, v in out.items()}


def file_from_json(json: dict[str, Any]) -> DataFileMeta:
    values = {k: _unpack(v) for k, v in json.items()}
    for key in ("key_stats", "value_stats"):
        values[key] = SimpleStats(**{k: _unpack(v) for k, v in json[key].items()})
    return DataFileMeta(**values)


def _pack(value: Any) -> Any:
    return {"b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"b"}:
        return base64.b64decode(value["b"])
    return tuple(value) if isinstance(value, list) else value

"""A tag: a snapshot under a name, perhaps for a limited time, as its file holds it (format sheet 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt
from lakelog.options.notebook import NotebookView
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import metadata_json

_CREATED: Final = "tagCreateTime"
_RETAINED: Final = "tagTimeRetained"


@dataclass(frozen=True, repr=False)
class Tag(NotebookView):
    """A named snapshot; ``created`` (wall clock of its creator's zone) and ``retained`` only if it expires.

    ``created_nanos`` (0 to 999) are the nanoseconds of ``created`` after its microseconds.
    """

    name: str
    snapshot: Snapshot
    created: datetime | None = None
    retained: timedelta | None = None
    created_nanos: int = 0

    def __repr__(self) -> str:
        kept = "" if self.ends is None else f", kept until {self.ends.isoformat(' ', 'seconds')}"
        return f"Tag('{self.name}', {self.snapshot}{kept})"

    def notebook_facts(self) -> Mapping[str, object]:
        """Name, end and snapshot."""
        ends = "never" if self.ends is None else self.ends.isoformat(" ", "seconds")
        return {"tag": self.name, "expires": ends, **self.snapshot.notebook_facts()}

    @property
    def ends(self) -> datetime | None:
        """The time at which the tag expires, in the same wall clock; None: never."""
        return None if self.created is None or self.retained is None else self.created + self.retained


def tag_to_json(snapshot_json: bytes, created: datetime | None = None, retained: timedelta | None = None) -> bytes:
    """The bytes of a tag file: those of the snapshot file and, with a retention, its two fields.

    The time is the array ``[year, month, day, hour, minute, second, nanosecond]`` and the retention a number of
    seconds, as Java's JSON library writes them.
    """
    if created is None or retained is None:
        return snapshot_json
    values: dict[str, Any] = metadata_json(snapshot_json)
    time = [*created.timetuple()[:6], created.microsecond * 1000]
    out = {**values, _CREATED: time, _RETAINED: retained.total_seconds()}
    return orjson.dumps(out, option=orjson.OPT_INDENT_2)


def tag_from_json(name: str, data: bytes) -> Tag:
    """Reads a tag file. Raises Corrupt."""
    snapshot = Snapshot.from_json(data)
    values: dict[str, Any] = metadata_json(data)
    try:
        created, nanos = _time(values.get(_CREATED))
        return Tag(name, snapshot, created, _retention(values.get(_RETAINED)), nanos)
    except (TypeError, ValueError) as why:
        raise Corrupt(f"tag '{name}' has an invalid time: {why}") from None


def snapshot_json_of(tag_json: bytes) -> bytes:
    """The bytes of the snapshot file that a tag file was made from."""
    values: dict[str, Any] = metadata_json(tag_json)
    if _CREATED not in values and _RETAINED not in values:
        return tag_json
    kept = {key: value for key, value in values.items() if key not in (_CREATED, _RETAINED)}
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2)


def _time(value: Sequence[int] | str | None) -> tuple[datetime | None, int]:
    if value is None or isinstance(value, str):
        return (None, 0) if value is None else (datetime.fromisoformat(value), 0)
    # seconds and nanoseconds are left out when they are zero
    year, month, day, hour, minute, second, nanos = (*value, 0, 0)[:7]
    return datetime(year, month, day, hour, minute, second, nanos // 1000), nanos % 1000


def _retention(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=float(value))

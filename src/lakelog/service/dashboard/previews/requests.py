"""What may be previewed, as plain values that travel to the process that reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RowsRequest:
    """Some rows of the newest snapshot; of the columns from ``first_column`` on."""

    table: str
    limit: int
    first_column: int = 0


@dataclass(frozen=True)
class SystemRequest:
    """The first rows of a system table, such as ``files``."""

    table: str
    kind: str
    limit: int


@dataclass(frozen=True)
class RecordsRequest:
    """Records of a bucket of the log.

    From ``offset`` on, or from the first one appended at ``time_ms`` or later, or else the last ones; with ``key`` only
    those in whose key this text stands.
    """

    table: str
    bucket: int
    limit: int
    offset: int | None = None
    time_ms: int | None = None
    key: str = ""


Request = RowsRequest | SystemRequest | RecordsRequest
_KINDS = {kind.__name__: kind for kind in (RowsRequest, SystemRequest, RecordsRequest)}


def to_json(request: Request) -> dict[str, Any]:
    """Plain values."""
    return {"kind": type(request).__name__, **asdict(request)}


def from_json(given: dict[str, Any]) -> Request:
    """What ``to_json`` made."""
    return _KINDS[given.pop("kind")](**given)

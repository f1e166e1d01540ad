"""Where a tail of the log is: the position of a stream's checkpoint, and how much it has told of what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lakelog.errors import InvalidRequest
from lakelog.options.log import NORMALIZE
from lakelog.table.log.position import LogPosition
from lakelog.table.log.scan import LogScan
from lakelog.table.tail.normalizer import StreamOrigin, normalizes

_AMID = "amid"
_STATE = "state"
_COLUMNS = "columns"


@dataclass(frozen=True)
class PartialProgress:
    """How much a reader has told of a part that it has not told whole.

    In the log the part is what the records up to ``end`` of a bucket show: the rows at offsets below ``first``, and
    ``rows`` more. In the snapshot, where ``bucket`` is -1, it is the next of its parts: ``rows`` of it.
    """

    rows: int
    bucket: int = -1
    end: int = 0
    first: int = 0


@dataclass(frozen=True)
class TailPosition:
    """Where a tail is. ``origin`` says whose state a tail has that makes whole changes."""

    log: LogPosition
    amid: PartialProgress | None = None
    origin: StreamOrigin | None = None

    def to_text(self, scan: LogScan) -> str:
        """JSON, in the form of a stream's offsets; for ``scan`` or one like it."""
        out = scan.position_json(self.log)
        if self.amid is not None:
            amid = self.amid
            out[_AMID] = {"rows": amid.rows, "bucket": amid.bucket, "end": amid.end, "first": amid.first}
        if self.origin is not None:
            out |= {_STATE: self.origin.to_json(), _COLUMNS: _columns(scan)}
        return orjson.dumps(out).decode()

    @staticmethod
    def from_text(text: str, scan: LogScan) -> TailPosition:
        """The reverse of ``to_text``.

        Raises InvalidRequest for a text that is no position, the position in another log, or of a read that cannot go
        on as this one: with another consistency, whole changes or not, whole changes of other columns.
        """
        try:
            value = orjson.loads(text)
            log, amid, origin = scan.position_of(value), value.get(_AMID), value.get(_STATE)
            if normalizes(scan.table) != (origin is not None) or (origin and value[_COLUMNS] != _columns(scan)):
                raise _other_changes(scan, value)
            return TailPosition(
                log,
                None
                if amid is None
                else PartialProgress(*(int(amid[name]) for name in ("rows", "bucket", "end", "first"))),
                None if origin is None else StreamOrigin.from_json(origin),
            )
        except InvalidRequest:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as why:
            raise InvalidRequest(f"'{text[:80]}' is not the position of a tail: {why}") from why


def _columns(scan: LogScan) -> list[str] | None:
    """The columns that were named: those of ``None`` may change with the table."""
    return None if scan.columns is None else list(scan.columns)


def _other_changes(scan: LogScan, value: Mapping[str, Any]) -> InvalidRequest:
    had = f"'true' and columns {value.get(_COLUMNS) or 'of the table'}" if _STATE in value else "'false'"
    return InvalidRequest(
        f"the position of this read of table {scan.table.name} was made with '{NORMALIZE.key}'={had}: go on with the "
        f"same, or begin anew"
    )

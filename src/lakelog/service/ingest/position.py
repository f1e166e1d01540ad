"""A position in the changes of a PostgreSQL server, as tables store it with their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.errors import Corrupt, NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.table.model.log_state import COPY_AGAIN


@dataclass(frozen=True, order=True)
class Position:
    """All transactions that committed before ``lsn`` are in the table, and the first ``done`` messages of the next one.

    ``done`` is 0 except between two parts of a transaction. The text is ``0/16B3748``, or ``0/16B3748+120``. After a
    space it may have the identity of the source table, which is not a part of the position. A table that must be
    copied again has the text ``copy``, and no position.
    """

    lsn: int
    done: int = 0

    @staticmethod
    def parse(text: str) -> Position | None:
        """The position of a text; None for "" and ``copy``. Raises Corrupt."""
        if text in ("", COPY):
            return None
        try:
            lsn, _, done = text.partition(" ")[0].partition("+")
            return Position(parse_lsn(lsn), int(done or 0))
        except ValueError:
            raise Corrupt(f"{text[:100]!r} is not a position of PostgreSQL, such as 0/16B3748") from None

    def __str__(self) -> str:
        return lsn_text(self.lsn) + (f"+{self.done}" if self.done else "")

    def has(self, final_lsn: int, number: int) -> bool:
        """True if a message is in the table: message ``number`` (from 0) of the transaction with this commit record."""
        return final_lsn < self.lsn or (final_lsn == self.lsn and number < self.done)


COPY: Final = COPY_AGAIN
"""The position of a table whose next copy replaces its rows."""


@dataclass(frozen=True)
class ConfirmedPosition:
    """The LSN up to which the server may have forgotten the changes of one table.

    The file ``<table>/lakelog/ingest-confirmed.json``, written before the server is told. So a table that was replaced
    by an older copy of itself has less than the slot.
    """

    io: FileIO
    table_path: str

    def write(self, writer: str, lsn: int) -> None:
        """Replaces it. Raises Unavailable."""
        self.io.write(self._path, orjson.dumps({"writer": writer, "lsn": lsn_text(lsn)}))

    def read(self, writer: str) -> int:
        """The LSN, 0 if there is none of this writer. Raises Corrupt, Unavailable."""
        try:
            values = orjson.loads(self.io.read(self._path))
            return parse_lsn(values["lsn"]) if values["writer"] == writer else 0
        except NotFound:
            return 0
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Corrupt(f"'{self._path}' is not the confirmed position of an ingest: delete it") from None

    @property
    def _path(self) -> str:
        return f"{self.table_path}/lakelog/ingest-confirmed.json"


def parse_lsn(text: str) -> int:
    """The number of an LSN such as ``0/16B3748``. Raises ValueError."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """PostgreSQL's text of an LSN."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"

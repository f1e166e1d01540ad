"""A cut of several tables, as users see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakelog.options.boundary import Public
from lakelog.options.scan import READ_CUT
from lakelog.table.cuts.cut import Cut


@dataclass(frozen=True)
class LakeCut(Public):
    """One moment of several tables (``Lake.cut``).

    ``name`` is the value of ``read.cut``. ``position`` is that of their source, for PostgreSQL an LSN: the tables have
    the transactions that committed before it. ``time`` is when the cut was recorded, and ``tables`` all tables of it.
    """

    _cut: Cut = field(repr=False)

    @property
    def name(self) -> str:
        """The name, which no other cut has."""
        return self._cut.name

    @property
    def position(self) -> str:
        """The position in the source."""
        return self._cut.position

    @property
    def time(self) -> datetime:
        """The time at which the cut was recorded."""
        return datetime.fromtimestamp(self._cut.time_ms / 1000, UTC)

    @property
    def tables(self) -> dict[str, int]:
        """Table, by its name when the cut was recorded → its snapshot."""
        return {member.table: member.snapshot for member in self._cut.members}

    @property
    def options(self) -> dict[str, str]:
        """The read options of this cut, for ``Table.scan``, ``spark.read`` and hints."""
        return {READ_CUT.key: self.name}

    def __repr__(self) -> str:
        return f"LakeCut({self.name}: {len(self._cut.members)} tables up to {self.position})"

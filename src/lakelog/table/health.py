"""The health of a table: what one look found, what it needs and what waits, and a score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.figures import TableFigures
from lakelog.table.figures_look import look_at
from lakelog.table.needs import Need, Wait, pick_needs, pick_waits
from lakelog.table.score import ScorePart, score_parts, total


@dataclass(frozen=True)
class TableHealth:
    """Figures, and what follows from them. ``score``: 0 to 100, the sum of ``parts`` (``lakelog.table.score``)."""

    table: str
    score: int
    parts: tuple[ScorePart, ...]
    needs: tuple[Need, ...]
    waits: tuple[Wait, ...]
    figures: TableFigures

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the sums that the figures make of their parts."""
        out, figures, log = asdict(self), self.figures, self.figures.log
        sums = ("files", "bytes", "small_files", "level0_files", "sorted_runs", "most_runs")
        out["figures"] |= {name: getattr(figures, name) for name in sums}
        if log is not None:
            sums = ("lag", "newest_ms", "files_ms", "waiting_ms", "open_epochs", "oldest_open_ms")
            out["figures"]["log"] |= {name: getattr(log, name) for name in sums}
        return out


def table_health(table: DynamicTable, with_log: bool = True) -> TableHealth:
    """Looks at a table: a few small reads, the manifests of one snapshot, three records of each bucket of the log.

    ``with_log`` false leaves the log out. A log that cannot be reached is told of (``figures.log.trouble``). Raises
    NotFound when the table is gone, Unavailable for its storage, Corrupt.
    """
    figures = look_at(table, with_log)
    return health_of(figures, table)


def health_of(figures: TableFigures, table: DynamicTable) -> TableHealth:
    """What follows from figures and the table's options."""
    options, now = table.options, figures.looked_ms
    parts = score_parts(figures, options, now)
    needs, waits = pick_needs(figures, options, now), pick_waits(figures, options, now)
    return TableHealth(table.name, total(parts), parts, needs, waits, figures)

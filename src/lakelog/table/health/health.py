"""The health of a table: metrics, findings, needed actions, blockers, and a score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from lakelog.options.notebook import NotebookView
from lakelog.table.health.actions import Action, Blocker, find_blockers, plan_actions
from lakelog.table.health.collect import collect_table_stats
from lakelog.table.health.score import Finding, ScorePart, pick_findings, score_parts, total, unreadable
from lakelog.table.health.stats import TableStats
from lakelog.table.model.dynamic_table import DynamicTable

GOOD: Final = 80
FAIR: Final = 50
"""Score thresholds of good and fair health; below them it is bad."""


@dataclass(frozen=True)
class TableHealth(NotebookView):
    """Metrics and the conclusions from them. ``score``: 0 to 100, the sum of ``parts``
    (``lakelog.table.health.score``).

    ``findings`` are current problems, the worst first; ``score`` is at most 20 with one that is no warning.
    ``figures`` is None, and the score 0, for an unreadable table.
    """

    table: str
    score: int
    parts: tuple[ScorePart, ...]
    needs: tuple[Action, ...]
    waits: tuple[Blocker, ...]
    figures: TableStats | None
    findings: tuple[Finding, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """False if a finding breaks the guarantee of the table, or hides whether it holds."""
        return all(one.is_warning for one in self.findings)

    def __repr__(self) -> str:
        said = [
            f"score {self.score}",
            *(finding.kind for finding in self.findings),
            *(f"needs {n.kind}" for n in self.needs),
        ]
        return f"TableHealth({self.table}: {', '.join(said)})"

    def notebook_facts(self) -> Mapping[str, object]:
        """Score, findings, and the actions with their reasons."""
        return {
            "table": self.table,
            "score": f"{self.score} of 100",
            "lag": self.lag,
            **{finding.kind: finding.reason for finding in self.findings},
            **{f"needs {need.kind}": need.reason for need in self.needs},
            **{f"blocked: {wait.what}": wait.why for wait in self.waits},
        }

    @property
    def lag(self) -> int | None:
        """Number of rows that wait in the log for the files; None without a log, and if unknown."""
        return None if self.figures is None or self.figures.log is None else self.figures.log.lag

    def to_json(self) -> dict[str, Any]:
        """Plain values, including the sums of the statistics."""
        out, stats = asdict(self), self.figures
        if stats is None:
            return out
        log = stats.log
        sums = ("rows", "rows_unit", "files", "bytes", "small_files", "level0_files", "sorted_runs", "most_runs")
        out["figures"] |= {name: getattr(stats, name) for name in sums}
        if log is not None:
            of_log = ("lag", "log_only", "newest_ms", "files_ms", "waiting_ms", "open_epochs", "oldest_open_ms")
            out["figures"]["log"] |= {name: getattr(log, name) for name in of_log}
        return out


def table_health(table: DynamicTable, with_log: bool = True) -> TableHealth:
    """Collects the health of a table: a few small reads, the manifests of one snapshot, three records per log bucket.

    With ``with_log`` false it skips the log. An unreachable log is a finding (``figures.log.trouble``). Raises NotFound
    if the table was dropped, Unavailable for its storage, Corrupt.
    """
    stats = collect_table_stats(table, with_log)
    return health_of(stats, table)


def health_of(stats: TableStats, table: DynamicTable) -> TableHealth:
    """The health that follows from metrics and the table's options."""
    options, now = table.options, stats.looked_ms
    parts = score_parts(stats, options, now)
    needs, waits = plan_actions(stats, options, now), find_blockers(stats, options, now)
    findings = pick_findings(stats, needs)
    return TableHealth(
        table.name, total(parts, any(not one.is_warning for one in findings)), parts, needs, waits, stats, findings
    )


def unreadable_health(name: str, why: Exception) -> TableHealth:
    """The health of a table that cannot be opened or read."""
    return TableHealth(name, 0, (), (), (), None, (unreadable(name, f"{type(why).__name__}: {why}"),))

"""Findings: what breaks the guarantee of a table (each row in both stores, once), or hides whether it holds. Pure.

Unlike a need, which maintenance meets sooner or later, a finding is wrong now: it caps the score and comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.table.health.actions import HEALING, Action
from lakelog.table.health.formatting import counted
from lakelog.table.health.stats import LogFigures, TableStats

DEAD_WRITER: Final = "dead-writer"
STORES_DIFFER: Final = "stores-differ"
LOG_UNREACHABLE: Final = "log-unreachable"
UNREADABLE: Final = "unreadable"
DEAD_RUN: Final = "dead-run"
FINDINGS: Final = (UNREADABLE, STORES_DIFFER, DEAD_WRITER, LOG_UNREACHABLE, DEAD_RUN)
"""Every kind, the worst first."""


@dataclass(frozen=True)
class Finding:
    """One sentence, and the command that looks into it or mends it. ``kind`` is one of ``FINDINGS``.

    ``action`` is the kind of maintenance that mends it, empty where none does.
    """

    kind: str
    reason: str
    what_to_do: str
    action: str = ""


def pick_findings(figures: TableStats, needs: Sequence[Action]) -> tuple[Finding, ...]:
    """The findings of a table that could be looked at, with its needs; the worst first. Pure."""
    found = [*_of_log(figures.name, figures.log)] if figures.log is not None else []
    dead = figures.snapshots.dead_run
    if dead is not None and any(need.kind == dead.kind for need in needs):
        reason = f"the last {dead.kind} died (process {dead.process} on {dead.host}) and is still needed"
        found.append(Finding(DEAD_RUN, reason, f"lakelog optimize {figures.name} --once", dead.kind))
    return tuple(sorted(found, key=lambda finding: FINDINGS.index(finding.kind)))


def unreadable(name: str, why: str) -> Finding:
    """The finding of a table that cannot be opened or looked at."""
    return Finding(UNREADABLE, f"the table cannot be read: {why}", f"lakelog describe {name}")


def _of_log(name: str, log: LogFigures) -> Iterator[Finding]:
    if log.trouble:
        yield Finding(LOG_UNREACHABLE, f"the log cannot be read: {log.trouble}", "lakelog doctor --only tables")
    dead = sum(writer.is_gone for writer in log.writers)
    if dead:
        reason = f"{counted(dead, 'dead writer')} left an unfinished write in the log"
        yield Finding(DEAD_WRITER, reason, f"lakelog optimize {name} --once --only {HEALING}", HEALING)
    lost = sum(bucket.lost for bucket in log.buckets)
    if lost:
        reason = f"{counted(lost, 'record')} expired from the log before a snapshot had them"
        yield Finding(STORES_DIFFER, reason, f"lakelog log {name}")
    ahead = [bucket for bucket in log.buckets if bucket.applied > bucket.end]
    if ahead:
        one = ahead[0]
        reason = (
            f"the files are ahead of the log: bucket {one.bucket} has offset {one.applied} in a snapshot and ends at "
            f"{one.end}; the log was truncated or replaced"
        )
        yield Finding(STORES_DIFFER, reason, f"lakelog log {name}")

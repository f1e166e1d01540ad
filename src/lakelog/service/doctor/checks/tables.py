"""What do the tables need?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import NotFound
from lakelog.io.clock import monotonic_s
from lakelog.logstore.clients import close_clients
from lakelog.service.doctor.check import Check, CheckContext, Finding, listed
from lakelog.table.health.health import TableHealth
from lakelog.table.health.score import LOG_UNREACHABLE, LOW_SPACE, STORES_DIFFER, UNREADABLE

_LONG_S: Final = 30.0
_FAILURES: Final = (UNREADABLE, STORES_DIFFER, LOG_UNREACHABLE, LOW_SPACE)
"""The findings for which the doctor fails: rows cannot be read or written, or are lost."""
_URGENT: Final = 50
"""Minimum urgency of reported needs; ``lakelog health`` reports all."""


class TablesCheck(Check):
    """Checks the health of every table."""

    NAME = "tables"
    TITLE = "the tables"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        lake, names = listed(around)
        begun, seen, well = monotonic_s(), 0, 0
        said: set[str] = set()
        for name in names:
            if monotonic_s() - begun > _LONG_S:
                yield self.warned(
                    f"only the first {seen} tables were checked: the others would take too long", "lakelog health"
                )
                break
            try:
                health = lake.health(name)
            except NotFound:  # dropped meanwhile
                continue
            finally:
                close_clients()
            seen += 1
            problems = list(self._problems(health))
            yield from (found for found in problems if found.found not in said)
            said.update(found.found for found in problems)
            well += not problems
        yield self.passed(f"{well} of {seen} tables are healthy" if seen else "no tables yet")

    def _problems(self, health: TableHealth) -> Iterator[Finding]:
        """A line for each finding, each urgent need that no finding names, and each blocked operation."""
        name = f"table {health.table}: "
        for one in health.findings:
            where = "" if one.kind == LOW_SPACE else name  # of all tables of the disk: one line
            report = self.failed if one.kind in _FAILURES and not one.is_warning else self.warned
            yield report(f"{where}{one.reason}", one.what_to_do)
        fixed = {one.action for one in health.findings}
        for need in health.needs:
            if need.urgency >= _URGENT and need.kind not in fixed:
                yield self.warned(f"{name}{need.reason}", need.what_to_do)
        for wait in health.waits:
            yield self.warned(f"{name}{wait.what} waits: {wait.why}", wait.what_to_do)

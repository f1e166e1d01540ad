"""What do the tables need?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.logstore.clients import close_clients
from lakelog.service.doctor.check import Check, CheckContext, Finding, list_tables
from lakelog.table.health.score import INGEST_STOPPED, SLOT_AT_RISK

_LONG_S: Final = 30.0
_URGENT: Final = 50
"""Minimum urgency of reported needs; ``lakelog health`` reports all."""


class TablesCheck(Check):
    """Checks the health of every table."""

    NAME = "tables"
    TITLE = "the tables"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        begun, seen, well = monotonic_s(), 0, 0
        for table in list_tables(around):
            if monotonic_s() - begun > _LONG_S:
                yield self.warned(
                    f"only the first {seen} tables were checked: the others would take too long", "lakelog health"
                )
                break
            seen += 1
            try:
                health = table.health()
            except LakelogError as why:
                yield self.failed(f"table {table.name} cannot be checked", str(why))
                continue
            finally:
                close_clients()
            problems = [(f"table {table.name}: {need.reason}", need.what_to_do)
                    for need in health.needs if need.urgency >= _URGENT]  # fmt: skip
            problems += [
                (f"table {table.name}: {wait.what} waits: {wait.why}", wait.what_to_do) for wait in health.waits
            ]
            problems += [
                (f"table {table.name}: {one.reason}", one.what_to_do)
                for one in health.findings
                if one.kind in (INGEST_STOPPED, SLOT_AT_RISK)
            ]
            yield from (self.warned(found, to_do) for found, to_do in problems)
            well += not problems
        yield self.passed(f"{well} of {seen} tables are healthy" if seen else "no tables yet")

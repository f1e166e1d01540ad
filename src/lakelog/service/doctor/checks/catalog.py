"""Does the catalog answer?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.service.doctor.check import Check, CheckContext, Finding, lake_of

_SLOW_S: Final = 5.0


class CatalogCheck(Check):
    """The names of databases and tables."""

    NAME = "catalog"
    TITLE = "the catalog"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        begun = monotonic_s()
        try:
            lake = lake_of(around)
            databases, tables = lake.list_databases(), lake.list_tables()
        except LakelogError as why:
            yield self.failed("the catalog does not answer", str(why))
            return
        seconds = monotonic_s() - begun
        text = f"{len(tables)} tables in {len(databases)} databases, listed in {seconds:.2f} s"
        if seconds > _SLOW_S:
            yield self.warned(text, "'catalog.type' = 'sql' keeps the names in a database, which lists them faster")
        else:
            yield self.passed(text)

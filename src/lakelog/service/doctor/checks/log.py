"""Does the log that tables are to have answer, and what are its limits?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError
from lakelog.logstore import LOG_PROBES
from lakelog.logstore.base import LogLocation
from lakelog.service.doctor.check import Check, CheckContext, Finding

_EMBEDDED: Final = "embedded"


class LogCheck(Check):
    """The server of a log, or the local disk for an embedded one."""

    NAME = "log"
    TITLE = "the log"

    def look(self, around: CheckContext) -> Iterator[Finding]:
        if around.log == _EMBEDDED and "://" in around.warehouse.removeprefix("file://"):
            yield self.warned(
                "tables in an object store or in HDFS cannot have an embedded log",
                "give tables with a log 'log-store.address', and look at it: lakelog doctor --log kafka --address …",
            )
            return
        if around.log != _EMBEDDED and not around.address:
            yield self.failed(f"where is the log on {around.log}?", "give --address host:port")
            return
        if around.log == _EMBEDDED:
            with around.trial() as (_, place):
                yield from self._probed(around, f"{place}/log.sqlite")
        else:
            yield from self._probed(around, around.address or "")

    def _probed(self, around: CheckContext, address: str) -> Iterator[Finding]:
        location = LogLocation(around.log, address, "lakelog-doctor", 1, properties=around.log_properties)
        try:
            server = LOG_PROBES.load(around.log)(location)
        except LakelogError as why:
            yield self.failed(f"the log on {around.log} cannot be used", str(why))
            return
        told = "; ".join(f"{name} {value}" for name, value in server.facts.items())
        yield self.passed(f"{server.name}: {told}" if told else server.name)
        for problem in server.problems:
            yield self.warned(problem.found, problem.what_to_do)

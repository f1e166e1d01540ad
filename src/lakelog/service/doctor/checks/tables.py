"""Checks of the tables, and of the log system of future ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.errors import LakelogError, NotFound
from lakelog.io.clock import monotonic_s
from lakelog.io.secrets import secret_value
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import close_clients
from lakelog.service.doctor.check import Check, CheckContext, Finding, listed
from lakelog.table.health.health import TableHealth
from lakelog.table.health.score import LOG_UNREACHABLE, LOW_SPACE, STORES_DIFFER, UNREADABLE


class LogCheck(Check):
    """Checks the server of a log, or the local disk for an embedded log."""

    NAME = "log"
    TITLE = "the log"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        factory = around.log_factory
        if factory.is_local and not factory.any_storage and "://" in around.warehouse.removeprefix("file://"):
            yield self.warned(
                f"tables in an object store or in HDFS cannot have an {factory.name} log",
                "leave 'log-store.type' out to have the log in files, or set 'log-store.address' to a server",
            )
        elif factory.is_local:
            with around.scratch_directory() as (io, directory):
                yield from self._probed(around, factory.default_address(directory), io)
        elif not around.address:
            yield self.failed(
                f"the address of the log on {factory.name} is missing", f"give --address: {factory.address}"
            )
        else:
            yield from self._probed(around, around.address)

    def _probed(self, around: CheckContext, address: str, io: FileIO | None = None) -> Iterator[Finding]:
        factory = around.log_factory
        try:
            properties = {name: secret_value(name, value) for name, value in around.log_properties.items()}
            location = LogLocation(factory.name, address, "lakelog-doctor", 1, storage=io, properties=properties)
            server = factory().probe(location)
        except LakelogError as why:
            yield self.failed(f"the log on {factory.name} cannot be used", str(why))
            return
        shown = "; ".join(f"{name} {value}" for name, value in server.facts.items())
        yield self.passed(f"{server.name}: {shown}" if shown else server.name)
        for problem in server.problems:
            yield self.warned(problem.found, problem.what_to_do)


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
            yield from (problem for problem in problems if problem.found not in said)
            said.update(problem.found for problem in problems)
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

"""Check of the log of future tables: its response and its limits."""

from __future__ import annotations

from collections.abc import Iterator

from lakelog.errors import LakelogError
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore.base import LogLocation
from lakelog.service.doctor.check import Check, CheckContext, Finding


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
        factory, properties = around.log_factory, around.log_properties
        location = LogLocation(factory.name, address, "lakelog-doctor", 1, storage=io, properties=properties)
        try:
            server = factory().probe(location)
        except LakelogError as why:
            yield self.failed(f"the log on {factory.name} cannot be used", str(why))
            return
        shown = "; ".join(f"{name} {value}" for name, value in server.facts.items())
        yield self.passed(f"{server.name}: {shown}" if shown else server.name)
        for problem in server.problems:
            yield self.warned(problem.found, problem.what_to_do)

"""Plans a table with one reader and prints what it took; run by ``planning.py`` as a process per measurement.

usage: planning_side.py lakelog|pypaimon|paimon-java WAREHOUSE key|partition|full
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

DAY, KEY = "2026-0004", 3_000_012_345
_BUNDLE = "org.apache.paimon:paimon-bundle:1.4.2"
_WARM = 5


class Lakelog:
    """Opens the table anew for each plan: what is warm is what the process keeps."""

    def __init__(self, warehouse: str, view: str) -> None:
        from lakelog.filestore.skipping.predicate import And, Compare
        from lakelog.filestore.store import FileStore
        from lakelog.io.storage.local import LocalFileIO
        from lakelog.paimon.schema.schema import TableSchema

        self.pid = os.getpid()
        self._parts = FileStore, TableSchema, LocalFileIO(), f"{warehouse}/bench.db/t"
        day, key = Compare("day", "=", DAY), Compare("id", "=", KEY)
        self._filter = {"key": And(day, key), "partition": day, "full": None}[view]

    def plan(self) -> Any:
        store, schema, io, path = self._parts
        return store(io, path, schema.from_json(io.read(f"{path}/schema/schema-0"))).plan(filter=self._filter)

    def files(self, splits: Any) -> int:
        return sum(len(split.files) for split in splits)


class Pypaimon:
    """From the catalog on."""

    def __init__(self, warehouse: str, view: str) -> None:
        from pypaimon import CatalogFactory

        self.pid = os.getpid()
        self._factory, self._warehouse, self._view = CatalogFactory, warehouse, view

    def plan(self) -> Any:
        builder = self._factory.create({"warehouse": self._warehouse}).get_table("bench.t").new_read_builder()
        tests = builder.new_predicate_builder()
        day, key = tests.equal("day", DAY), tests.equal("id", KEY)
        filter = {"key": tests.and_predicates([day, key]), "partition": day, "full": None}[self._view]
        return (builder if filter is None else builder.with_filter(filter)).new_scan().plan().splits()

    def files(self, splits: Any) -> int:
        return sum(len(split.files) for split in splits)


class PaimonJava:
    """From the catalog on, in a JVM behind a gateway, whose calls cost some milliseconds in all."""

    def __init__(self, warehouse: str, view: str) -> None:
        import pyspark
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        from lakelog.service.servers.jars import resolve_jars

        classpath = ":".join([*map(str, resolve_jars([_BUNDLE])), f"{Path(pyspark.__file__).parent}/jars/*"])
        port = launch_gateway(classpath=classpath, die_on_exit=True)
        self._gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        self._warehouse, self._view = warehouse, view
        self.pid = int(self._gateway.jvm.java.lang.ProcessHandle.current().pid())

    def plan(self) -> Any:
        p = self._gateway.jvm.org.apache.paimon
        catalog = p.catalog.CatalogFactory.createCatalog(p.catalog.CatalogContext.create(p.fs.Path(self._warehouse)))
        table = catalog.getTable(p.catalog.Identifier.create("bench", "t"))
        builder = self._call("table.Table", table, "newReadBuilder")
        if self._view != "full":
            tests = p.predicate.PredicateBuilder(table.rowType())
            both = [tests.equal(0, p.data.BinaryString.fromString(DAY)), tests.equal(1, KEY)]
            tests = self._gateway.jvm.java.util.ArrayList()
            for test in both if self._view == "key" else both[:1]:
                tests.add(test)
            builder.withFilter(getattr(p.predicate.PredicateBuilder, "and")(tests))
        scan = self._call("table.source.ReadBuilder", builder, "newScan")
        return self._call("table.source.TableScan$Plan", self._call("table.source.TableScan", scan, "plan"), "splits")

    def files(self, splits: Any) -> int:
        return sum(split.dataFiles().size() for split in splits)

    def _call(self, interface: str, on: Any, method: str) -> Any:
        """Calls a method through its interface: the gateway sees no method of a hidden class."""
        java = self._gateway.jvm.java.lang
        none = self._gateway.new_array(java.Class, 0), self._gateway.new_array(java.Object, 0)
        found = java.Class.forName(f"org.apache.paimon.{interface}").getMethod(method, none[0])
        return found.invoke(on, none[1])


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024, 1)


def main() -> None:
    """Prints one line of JSON."""
    side, warehouse, view = sys.argv[1:]
    reader = {"lakelog": Lakelog, "pypaimon": Pypaimon, "paimon-java": PaimonJava}[side](warehouse, view)
    before = _peak_mb(reader.pid)
    started = time.perf_counter()
    splits = reader.plan()
    cold = time.perf_counter() - started
    peak = _peak_mb(reader.pid)
    files = reader.files(splits)
    warm = []
    for _ in range(_WARM):
        started = time.perf_counter()
        reader.plan()
        warm.append(time.perf_counter() - started)
    found = {"cold ms": cold * 1000, "warm ms": min(warm) * 1000, "peak MB": peak, "before MB": before}
    print(json.dumps({**{name: round(value, 1) for name, value in found.items()}, "files": files}))


if __name__ == "__main__":
    main()

"""Other readers of the same tables: Paimon's Java core through a JVM gateway, no Spark involved."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakelog.service.jars import resolve_jars

BUNDLE = "org.apache.paimon:paimon-bundle:1.4.2"


class PaimonJava:
    """A JVM with Paimon on its class path; a context manager."""

    def __init__(self, jars: list[Path]) -> None:
        spark = Path(pyspark.__file__).parent / "jars"
        classpath = ":".join([*map(str, jars), f"{spark}/*"])
        opens = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        port = launch_gateway(classpath=classpath, javaopts=opens, die_on_exit=True)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    def __enter__(self) -> PaimonJava:
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()

    def table(self, warehouse: str, database: str, name: str) -> Any:
        """Paimon's Table object."""
        p = self._gateway.jvm.org.apache.paimon
        context = p.catalog.CatalogContext.create(p.fs.Path(warehouse))
        catalog = p.catalog.CatalogFactory.createCatalog(context)
        return catalog.getTable(p.catalog.Identifier.create(database, name))

    def rows(self, warehouse: str, database: str, name: str) -> list[tuple]:
        """All rows of the table's batch scan."""
        table = self.table(warehouse, database, name)
        fields = list(table.rowType().getFields())
        builder = self._call("table.Table", table, "newReadBuilder")
        splits = builder.newScan().plan().splits()
        reader = self._call("table.source.TableRead", builder.newRead(), "createReader", java_util_List=splits)
        iterator = reader.toCloseableIterator()
        try:
            return list(self._values(iterator, fields))
        finally:
            iterator.close()

    def write(self, warehouse: str, database: str, name: str, rows: list[tuple]) -> None:
        """Writes rows of INT and STRING columns with Paimon's batch writer (which compacts as it likes) and
        commits them."""
        p = self._gateway.jvm.org.apache.paimon
        table = self.table(warehouse, database, name)
        builder = self._call("table.Table", table, "newBatchWriteBuilder")
        write = builder.newWrite()
        write.withIOManager(p.disk.IOManager.create(warehouse + "/.tmp"))
        for row in rows:
            java = p.data.GenericRow(len(row))
            for index, value in enumerate(row):
                java.setField(index, self._to_java(value))
            write.write(java)
        commit = builder.newCommit()
        commit.commit(write.prepareCommit())
        write.close()
        commit.close()

    def _call(self, interface: str, on: Any, method: str, **arguments: Any) -> Any:
        """Calls a method through its interface (argument types by name): the gateway sees no method of a hidden
        class."""
        java = self._gateway.jvm.java.lang
        types = self._gateway.new_array(java.Class, len(arguments))
        values = self._gateway.new_array(java.Object, len(arguments))
        for index, (kind, value) in enumerate(arguments.items()):
            types[index], values[index] = java.Class.forName(kind.replace("_", ".")), value
        return java.Class.forName(f"org.apache.paimon.{interface}").getMethod(method, types).invoke(on, values)

    def _to_java(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._gateway.jvm.org.apache.paimon.data.BinaryString.fromString(value)
        return value

    def _values(self, iterator: Any, fields: list[Any]) -> Iterator[tuple]:
        getters = [
            self._gateway.jvm.org.apache.paimon.data.InternalRow.createFieldGetter(f.type(), i)
            for i, f in enumerate(fields)
        ]
        roots = [f.type().getTypeRoot().name() for f in fields]
        while iterator.hasNext():
            row = iterator.next()
            yield tuple(_python(g.getFieldOrNull(row), root) for g, root in zip(getters, roots, strict=True))


def _python(value: Any, root: str) -> Any:
    if value is None:
        return None
    if root == "DATE":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    if root.startswith("TIMESTAMP"):
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value.toMicros())
    if root == "DECIMAL":
        return decimal.Decimal(value.toString())
    if root in ("VARCHAR", "CHAR"):
        return value.toString()
    if root in ("BINARY", "VARBINARY"):
        return bytes(value)
    return value


@pytest.fixture(scope="session")
def java() -> Iterator[PaimonJava]:
    with PaimonJava(resolve_jars([BUNDLE])) as paimon:
        yield paimon

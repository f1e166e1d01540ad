"""Reads tables with Apache Paimon's own Java core, called through a JVM gateway; no Spark involved."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

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
        builder = table.newReadBuilder()
        reader = builder.newRead().createReader(builder.newScan().plan())
        iterator = reader.toCloseableIterator()
        try:
            return list(self._values(iterator, fields))
        finally:
            iterator.close()

    def write(self, warehouse: str, database: str, name: str, rows: list[tuple]) -> None:
        """Writes rows with Paimon's batch writer (which compacts as it likes) and commits them."""
        p = self._gateway.jvm.org.apache.paimon
        table = self.table(warehouse, database, name)
        types = [f.type().getTypeRoot().name() for f in table.rowType().getFields()]
        builder = table.newBatchWriteBuilder()
        write = builder.newWrite()
        write.withIOManager(p.disk.IOManager.create(warehouse + "/.tmp"))
        for row in rows:
            java = p.data.GenericRow(len(row))
            for index, value in enumerate(row):
                java.setField(index, self._to_java(value, types[index]))
            write.write(java)
        commit = builder.newCommit()
        commit.commit(write.prepareCommit())
        write.close()
        commit.close()

    def _to_java(self, value: Any, root: str) -> Any:
        if isinstance(value, str):
            return self._gateway.jvm.org.apache.paimon.data.BinaryString.fromString(value)
        if root == "BIGINT" and value is not None:
            return self._gateway.jvm.java.lang.Long(value)
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

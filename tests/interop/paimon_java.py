"""Apache Paimon's Java core in a JVM of its own: makes tables, writes, alters, compacts and reads them. No Spark."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from paimon_rows import Rows
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

BUNDLE = "org.apache.paimon:paimon-bundle:1.4.2"
USER = "interop-user"


class PaimonJava:
    """A JVM with Paimon on its class path; a context manager.

    Where a method takes a warehouse, it may be given all options of a catalog instead.
    """

    def __init__(self, jars: list[Path]) -> None:
        spark = Path(pyspark.__file__).parent / "jars"
        classpath = ":".join([*map(str, jars), f"{spark}/*"])
        opens = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        port = launch_gateway(classpath=classpath, javaopts=[*opens, "-Xmx1g"], die_on_exit=True)
        self.gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        self.paimon = self.gateway.jvm.org.apache.paimon
        self._rows = Rows(self.gateway)
        compiler = self.gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(8)
        compiler.cook(Path(__file__).with_name("PaimonRows.java").read_text(encoding="utf-8"))
        self._tables = compiler.getClassLoader().loadClass("PaimonRows").newInstance()

    def __enter__(self) -> PaimonJava:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.shutdown()

    # tables

    def catalog(self, warehouse: str | Mapping[str, str]) -> Any:
        """The file system catalog of a directory, or the one of these options."""
        create = self.paimon.catalog.CatalogContext.create
        if isinstance(warehouse, str):
            context = create(self.paimon.fs.Path(warehouse))
        else:
            context = create(self.paimon.options.Options.fromMap(self._map(warehouse)))
        return self.paimon.catalog.CatalogFactory.createCatalog(context)

    def identifier(self, database: str, name: str) -> Any:
        """A table's name; ``name`` may end in ``$snapshots`` or the like."""
        return self.paimon.catalog.Identifier.create(database, name)

    def create(
        self,
        warehouse: str,
        name: str,
        columns: Mapping[str, Any],
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        database: str = "g",
    ) -> None:
        """Makes a table; a column's type is text or the JSON of a nested type."""
        catalog = self.catalog(warehouse)
        catalog.createDatabase(database, True)
        builder = self.paimon.schema.Schema.newBuilder()
        for column, kind in columns.items():
            builder.column(column, self.type_of(kind))
        builder.partitionKeys(self._list(partition_keys)).primaryKey(self._list(primary_keys))
        for key, value in (options or {}).items():
            builder.option(key, value)
        catalog.createTable(self.identifier(database, name), builder.build(), False)

    def type_of(self, kind: Any) -> Any:
        """A Paimon DataType from its JSON."""
        util = self.paimon.utils.JsonSerdeUtil
        field = {"id": 0, "name": "f", "type": kind}
        json_class = self.gateway.jvm.java.lang.Class.forName("org.apache.paimon.types.DataField")
        return util.fromJson(json.dumps(field), json_class).type()

    def table(
        self, warehouse: str | Mapping[str, str], database: str, name: str, options: Mapping[str, str] | None = None
    ) -> Any:
        """Paimon's Table object, with options for one use."""
        if not isinstance(warehouse, str):
            return self.catalog(warehouse).getTable(self.identifier(database, name))
        return self._tables.table(warehouse, database, name, self._map(options or {}))

    def alter(self, warehouse: str, name: str, *changes: Any, database: str = "g") -> None:
        """Applies SchemaChanges."""
        self.catalog(warehouse).alterTable(self.identifier(database, name), self._list(changes), False)

    @property
    def change(self) -> Any:
        """Paimon's SchemaChange factory."""
        return self.paimon.schema.SchemaChange

    # reading

    def rows(self, warehouse: str, database: str, name: str, options: Mapping[str, str] | None = None) -> list[tuple]:
        """The values of all rows of a batch scan, in the form of the golden files."""
        return [values for _, values in self.kinds_and_rows(warehouse, database, name, options)]

    def rows_of_files_with(self, warehouse: str, database: str, name: str, column: str, value: Any) -> list[tuple]:
        """The values of all rows of the files that may have a value in a column, as their statistics and index say."""
        found = _rows_of(self._tables.scanEqual(self.table(warehouse, database, name), column, value))
        return [tuple(values) for _, values in found]

    def kinds_and_rows(
        self, warehouse: str, database: str, name: str, options: Mapping[str, str] | None = None
    ) -> list[tuple[str, tuple]]:
        """(row kind, values) of all rows of a batch scan."""
        found = _rows_of(self._tables.scan(self.table(warehouse, database, name, options)))
        return [(kind, tuple(values)) for kind, values in found]

    def stream(self, warehouse: str, database: str, name: str, start: int) -> list[tuple[int, str, tuple]]:
        """(next snapshot, row kind, values) of what a stream restored at a snapshot reads up to now."""
        found = _rows_of(self._tables.stream(self.table(warehouse, database, name), start))
        return [(following, kind, tuple(values)) for following, kind, values in found]

    def names(self, warehouse: str, database: str, name: str, options: Mapping[str, str] | None = None) -> list[str]:
        """The names of the columns of a table, system tables included."""
        return list(json.loads(self._tables.names(self.table(warehouse, database, name, options))))

    def fields(self, table: Any) -> list[Any]:
        """The columns of a table, system tables included."""
        return list(self._call("table.Table", table, "rowType").getFields())

    # writing

    def write(
        self,
        warehouse: str,
        database: str,
        name: str,
        rows: Iterable[Sequence[Any]],
        kinds: Sequence[str] | None = None,
        identifier: int | None = None,
        compact: Sequence[int] = (),
        bucket_of: Any = None,
        overwrite: Mapping[str, str] | None = None,
        partition: Sequence[Any] | None = None,
    ) -> None:
        """Writes rows and commits them, as a batch, or as one commit of a stream when ``identifier`` is given.

        ``compact`` lists buckets that are compacted fully with the commit (of ``partition``, a row's values of the
        partition columns); ``bucket_of`` decides the bucket of a table with dynamic buckets.
        """
        table = self.table(warehouse, database, name)
        types = [f.type() for f in self.fields(table)]
        stream = identifier is not None
        builder = self._call("table.Table", table, "newStreamWriteBuilder" if stream else "newBatchWriteBuilder")
        if stream:
            builder.withCommitUser(USER)
        elif overwrite is not None:
            builder.withOverwrite(self._map(overwrite))
        write = builder.newWrite()
        write.withIOManager(self.paimon.disk.IOManager.create(tempfile.gettempdir()))
        for at, row in enumerate(rows):
            java = self._rows.to_java(row, types, kinds[at] if kinds else "+I")
            if bucket_of is None:
                write.write(java)
            else:
                write.write(java, bucket_of(row))
        for bucket in compact:
            keys = [f.type() for f in self.fields(table) if f.name() in list(table.partitionKeys())]
            write.compact(self._rows.to_java(partition or (), keys if partition else ()), bucket, True)
        commit = builder.newCommit()
        if stream:
            commit.commit(identifier, write.prepareCommit(True, identifier))
        else:
            commit.commit(write.prepareCommit())
        write.close()
        commit.close()

    def _call(self, interface: str, on: Any, method: str, **arguments: Any) -> Any:
        """Calls a method through its interface (argument types by name): the gateway sees no method of a hidden
        class."""
        java = self.gateway.jvm.java.lang
        types = self.gateway.new_array(java.Class, len(arguments))
        values = self.gateway.new_array(java.Object, len(arguments))
        for index, (kind, value) in enumerate(arguments.items()):
            types[index] = java.Class.forName(kind.replace("_", "."))
            values[index] = value
        return java.Class.forName(f"org.apache.paimon.{interface}").getMethod(method, types).invoke(on, values)

    def _list(self, values: Iterable[Any]) -> Any:
        made = self.gateway.jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _map(self, values: Mapping[str, str]) -> Any:
        made = self.gateway.jvm.java.util.HashMap()
        for key, value in values.items():
            made.put(key, value)
        return made


def _rows_of(text: str) -> list[Any]:
    """Rows as PaimonRows.java prints them; maps become sorted lists of pairs, as in the golden files."""
    return list(json.loads(text, object_hook=lambda found: sorted(found[""], key=repr) if "" in found else found))

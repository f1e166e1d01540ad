"""Spark's methods that take a table name, in a session with an attached lake.

``spark.table``, ``read.table``, ``readStream.table``, ``writeStream.toTable``, ``insertInto``, ``saveAsTable``,
``writeTo``, ``mergeInto``, ``foreachBatch``, ``spark.catalog`` and ``newSession`` do with a lakelog table what they
do with a catalog's, or say in one line what to write instead. The methods are replaced on PySpark's classes once;
without an attached lake, and for all other names, they are Spark's. Spark Connect's classes do not know their
session, so there only ``spark.sql`` and ``spark.table`` are replaced.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import catalog as spark_catalog
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from lakelog.errors import UnsupportedFeature, UnsupportedStatement
from lakelog.paimon.schema.schema import TableSchema
from lakelog.spark.compat.kinds import ClassicFrame
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.runtime.types import SCHEMA_OPTION
from lakelog.spark.session.table_writer import TableWriterV2

_LAKE: Final = "_lakelog_attached"
_OPTIONS: Final = "_lakelog_options"
_SPARK_ONLY: Final[ContextVar[bool]] = ContextVar("spark_only", default=False)
"""True while lakelog asks Spark for its own relations."""


class AttachedLake(Protocol):
    """The tables of a lake, by the names of its SQL session."""

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement with ``{name}`` as a reference to one of the frames."""

    def has(self, name: str) -> bool:
        """Returns whether a table has this name."""

    def full(self, name: str) -> str:
        """The name with its catalog."""

    def databases(self) -> Sequence[str]:
        """The databases of the current catalog."""

    def tables(self, database: str | None) -> Sequence[tuple[str, str]]:
        """(database, table) of a database, None: the current one."""

    def schema(self, name: str) -> TableSchema:
        """The columns of a table."""

    def read_stream(self, name: str) -> DataFrame:
        """A streaming DataFrame of a table's changes."""

    def attach_to(self, session: SparkSession) -> None:
        """Attaches another lake of the same warehouse to a session."""


@contextmanager
def spark_only() -> Iterator[None]:
    """In this block the methods know Spark's relations alone."""
    token = _SPARK_ONLY.set(True)
    try:
        yield
    finally:
        _SPARK_ONLY.reset(token)


def attach_names(spark: SparkSession, lake: AttachedLake) -> None:
    """Makes the names of the lake's tables known to the methods of a session."""
    setattr(spark, _LAKE, lake)
    spark.table = functools.partial(_table, spark)  # type: ignore[method-assign]
    if isinstance(spark, SparkSession):
        spark.newSession = functools.partial(_new_session, spark)  # type: ignore[method-assign]
        _replace_methods()


def detach_names(spark: SparkSession) -> None:
    """Makes the session forget them."""
    for name in (_LAKE, "table", "newSession"):
        vars(spark).pop(name, None)


def _lake_of(session: Any) -> AttachedLake | None:
    return None if _SPARK_ONLY.get() else vars(session).get(_LAKE)


def _own(session: Any, name: Any) -> AttachedLake | None:
    """The attached lake if the name is one of its tables, and of no temporary view."""
    lake = _lake_of(session)
    if lake is None or not isinstance(name, str):
        return None
    with spark_only():
        if "." not in name and session.catalog.tableExists(name):
            return None
    return lake if lake.has(name) else None


def _table(spark: SparkSession, tableName: str) -> DataFrame:
    lake = _own(spark, tableName)
    frame: DataFrame = (
        type(spark).table(spark, tableName) if lake is None else lake.run(f"SELECT * FROM {tableName}")[0]
    )
    return frame


def _new_session(spark: SparkSession) -> SparkSession:
    session = type(spark).newSession(spark)
    lake = _lake_of(spark)
    if lake is not None:
        lake.attach_to(session)
    return session


@functools.cache
def _replace_methods() -> None:
    for owner, session_of, methods in _METHODS:
        for name, replaced in methods.items():
            if hasattr(owner, name):  # some are newer than the oldest PySpark
                setattr(owner, name, _method(getattr(owner, name), replaced, session_of))


def _method(spark: Callable[..., Any], own: Callable[..., Any], session_of: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(spark)
    def method(self: Any, *arguments: Any, **more: Any) -> Any:
        session = session_of(self)
        lake = _lake_of(session)
        if lake is None:
            return spark(self, *arguments, **more)
        return own(_Call(lake, session, self, functools.partial(spark, self)), *arguments, **more)

    return method


@dataclass(frozen=True)
class _Call:
    """A call of a method of ``target`` in a session with an attached lake; ``spark`` is Spark's own method."""

    lake: AttachedLake
    session: SparkSession
    target: Any
    spark: Callable[..., Any]


def _of_table(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose first argument names a table: of the lake, or else Spark's.

    A temporary view of the name comes before the table, except in ``spark.catalog``.
    """

    def of_table(call: _Call, *arguments: Any, **more: Any) -> Any:
        _, name, *_ = inspect.signature(method).bind(call, *arguments, **more).arguments.values()
        is_own = call.lake.has(name) if isinstance(call.target, Catalog) else _own(call.session, name) is not None
        return method(call, *arguments, **more) if is_own else call.spark(*arguments, **more)

    return of_table


@_of_table
def _read_table(call: _Call, tableName: str) -> Any:
    if DATA_SOURCES:
        return call.target.format("lakelog").load(call.lake.full(tableName))
    options = vars(call.target).get(_OPTIONS, {})
    hints = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return call.lake.run(f"SELECT * FROM {tableName}{f' /*+ OPTIONS({hints}) */' if hints else ''}")[0]


def _option(call: _Call, key: str, value: Any) -> Any:
    _keep_options(call, {key: value})
    return call.spark(key, value)


def _options(call: _Call, **options: Any) -> Any:
    _keep_options(call, options)
    return call.spark(**options)


def _keep_options(call: _Call, options: Mapping[str, Any]) -> None:
    texts = {key: str(value).replace("'", "\\'") for key, value in options.items()}
    vars(call.target).setdefault(_OPTIONS, {}).update(texts)  # Spark's own are in its JVM


@_of_table
def _read_stream(call: _Call, tableName: str) -> Any:
    changes = call.lake.read_stream(tableName)
    if not DATA_SOURCES:
        if isinstance(changes, DataFrame):
            return changes
        raise UnsupportedFeature(
            f"a streaming DataFrame of table {tableName} needs Spark {DATA_SOURCES.text}, because older ones have no "
            f"Python data sources: write lake.read_stream('{tableName}', options).foreach_batch(function, checkpoint)"
        )
    # the rows of a stream have a column more than the table
    reader = call.target.schema(changes.schema).format("lakelog")
    return reader.option(SCHEMA_OPTION, call.lake.schema(tableName).id).load(call.lake.full(tableName))


@_of_table
def _to_table(call: _Call, tableName: str, format: str | None = None, **more: Any) -> Any:
    writer = call.target.option(SCHEMA_OPTION, call.lake.schema(tableName).id)
    return writer.start(call.lake.full(tableName), "lakelog", **more)


@_of_table
def _insert_into(call: _Call, tableName: str, overwrite: bool | None = None) -> None:
    verb = "OVERWRITE" if overwrite else "INTO"
    call.lake.run(f"INSERT {verb} {tableName} SELECT * FROM {{rows}}", rows=call.target._df)


def _save_as_table(
    call: _Call,
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | Sequence[str] | None = None,
    **options: Any,
) -> None:
    lake, database = call.lake, name.rpartition(".")[0]
    if _own(call.session, name) is None and format != "lakelog" and database not in lake.databases():
        call.spark(name, format, mode, partitionBy, **options)
        return
    partitionBy = partitionBy or getattr(call.target, "_lakelog_keys", None)
    keys = [partitionBy] if isinstance(partitionBy, str) else list(partitionBy or ())
    writer = TableWriterV2(lake.run, call.target._df, name).partitionedBy(*keys).tableProperties(options)
    exists = lake.has(name)
    mode = mode or getattr(call.target, "_lakelog_mode", None)
    if mode == "append" and exists:
        writer.append()
    elif mode == "overwrite":
        writer.createOrReplace()
    elif mode != "ignore" or not exists:
        writer.create()


def _mode(call: _Call, saveMode: str | None) -> Any:
    writer = call.spark(saveMode)
    writer._lakelog_mode = saveMode  # Spark's own is in its JVM
    return writer


def _partition_by(call: _Call, *cols: str | Sequence[str]) -> Any:
    writer = call.spark(*cols)
    writer._lakelog_keys = [name for part in cols for name in ([part] if isinstance(part, str) else part)]
    return writer


def _foreach_batch(call: _Call, func: Callable[[Any, int], None]) -> Any:
    """``func`` gets frames of another session, that of the query, whose first use attaches it."""

    def with_tables(batch: Any, number: int) -> None:
        session = batch.sparkSession
        if _lake_of(session) is None:
            for name in ("sql", "table"):
                setattr(session, name, functools.partial(_attached_first, call.lake, session, name))
        func(batch, number)

    return call.spark(with_tables)


def _attached_first(lake: AttachedLake, session: SparkSession, name: str, *arguments: Any, **more: Any) -> Any:
    for replaced in ("sql", "table"):
        vars(session).pop(replaced, None)
    lake.attach_to(session)
    return getattr(session, name)(*arguments, **more)


def _write_to(call: _Call, table: str) -> Any:
    if _own(call.session, table) is None and table.rpartition(".")[0] not in call.lake.databases():
        return call.spark(table)
    return TableWriterV2(call.lake.run, call.target, table)


@_of_table
def _merge_into(call: _Call, table: str, condition: Any) -> Any:
    raise UnsupportedStatement(
        f"mergeInto('{table}', …) takes columns, which a lakelog table cannot: write "
        f"lake.table('{table}').merge(frame, 't.id = s.id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()"
    )


def _named(name: str, database: str | None) -> str:
    return name if database is None else f"{database}.{name}"


def _table_exists(call: _Call, tableName: str, dbName: str | None = None) -> bool:
    return call.lake.has(_named(tableName, dbName)) or bool(call.spark(tableName, dbName))


def _database_exists(call: _Call, dbName: str) -> bool:
    return dbName in call.lake.databases() or bool(call.spark(dbName))


def _set_database(call: _Call, dbName: str) -> None:
    if dbName in call.lake.databases():
        call.lake.run(f"USE `{dbName}`")
    else:
        call.spark(dbName)


def _current_database(call: _Call) -> str:
    *_, database, _ = call.lake.full("t").split(".")
    return database if database in call.lake.databases() else str(call.spark())


def _list_databases(call: _Call, pattern: str | None = None) -> list[Any]:
    text = "SHOW DATABASES" + ("" if pattern is None else f" LIKE '{pattern}'")
    names = call.lake.run(text)[0].column(0).to_pylist()
    databases = [spark_catalog.Database(name, "lakelog", None, "") for name in names]
    return [*databases, *(database for database in call.spark(pattern) if database.name not in names)]


def _list_tables(call: _Call, dbName: str | None = None, pattern: str | None = None) -> list[Any]:
    if dbName is not None and dbName not in call.lake.databases():
        return list(call.spark(dbName, pattern))
    views = [view for view in call.spark(None, pattern) if view.isTemporary]
    if pattern is None:
        return [*(_entry(database, name) for database, name in call.lake.tables(dbName)), *views]
    rows = call.lake.run(f"SHOW TABLES{'' if dbName is None else f' IN `{dbName}`'} LIKE '{pattern}'")[0].to_pylist()
    return [*(_entry(row["namespace"], row["tableName"]) for row in rows), *views]


def _entry(database: str, name: str) -> Any:
    return spark_catalog.Table(name, "lakelog", [database], None, "MANAGED", False)


@_of_table
def _get_table(call: _Call, tableName: str) -> Any:
    *_, database, name = call.lake.full(tableName).split(".")
    return _entry(database, name)._replace(description=call.lake.schema(tableName).comment)


def _list_columns(call: _Call, tableName: str, dbName: str | None = None) -> list[Any]:
    name = _named(tableName, dbName)
    if not call.lake.has(name):
        return list(call.spark(tableName, dbName))
    schema = call.lake.schema(name)
    types: Mapping[str, str] = dict(call.lake.run(f"SELECT * FROM {name} LIMIT 0")[0].dtypes)
    return [
        spark_catalog.Column(
            f.name, f.description, types[f.name], f.type.nullable, f.name in schema.partition_keys, False, False
        )
        for f in schema.fields
    ]


@_of_table
def _drop_table(call: _Call, tableName: str, ifExists: bool = False, purge: bool = False) -> None:
    call.lake.run(f"DROP TABLE {tableName}{' PURGE' if purge else ''}")


def _refused_with(text: str) -> Callable[..., Any]:
    """A method that Spark does for its own tables, and ``text`` says what to write for a lakelog table."""

    @_of_table
    def method(call: _Call, tableName: str, *more: Any, **named: Any) -> Any:
        raise UnsupportedStatement(f"'{tableName}' is a lakelog table: write {text.format(tableName)}")

    return method


def _run(text: str) -> Callable[..., Any]:
    """A method that is one statement for a lakelog table."""

    @_of_table
    def method(call: _Call, tableName: str, *more: Any, **named: Any) -> None:
        call.lake.run(text.format(tableName))

    return method


_READER_OPTIONS: Final[Mapping[str, Callable[..., Any]]] = (
    {} if DATA_SOURCES else {"option": _option, "options": _options}
)
_WRITES: Final[Mapping[str, Callable[..., Any]]] = {
    "insertInto": _insert_into,
    "saveAsTable": _save_as_table,
    "mode": _mode,
    "partitionBy": _partition_by,
}
_METHODS: Final[Sequence[tuple[type, Callable[[Any], Any], Mapping[str, Callable[..., Any]]]]] = (
    (DataFrameReader, lambda reader: reader._spark, {"table": _read_table, **_READER_OPTIONS}),
    (DataStreamReader, lambda reader: reader._spark, {"table": _read_stream}),
    (DataStreamWriter, lambda writer: writer._spark, {"toTable": _to_table, "foreachBatch": _foreach_batch}),
    (DataFrameWriter, lambda writer: writer._spark, _WRITES),
    (ClassicFrame, lambda frame: frame.sparkSession, {"writeTo": _write_to, "mergeInto": _merge_into}),
    (
        Catalog,
        lambda catalog: catalog._sparkSession,
        {
            "tableExists": _table_exists,
            "databaseExists": _database_exists,
            "setCurrentDatabase": _set_database,
            "currentDatabase": _current_database,
            "listDatabases": _list_databases,
            "listTables": _list_tables,
            "getTable": _get_table,
            "listColumns": _list_columns,
            "dropTable": _drop_table,
            "truncateTable": _run("TRUNCATE TABLE {}"),
            "refreshTable": _run("REFRESH TABLE {}"),
            "cacheTable": _run("CACHE TABLE {}"),
            "uncacheTable": _run("UNCACHE TABLE {}"),
            "analyzeTable": _run("ANALYZE TABLE {} COMPUTE STATISTICS"),
            "listPartitions": _refused_with("spark.sql('SHOW PARTITIONS {}')"),
            "getTableProperties": _refused_with("spark.sql('SHOW TBLPROPERTIES {}')"),
            "getCreateTableString": _refused_with("spark.sql('SHOW CREATE TABLE {}')"),
            "recoverPartitions": _refused_with("nothing: the partitions of {} are always known"),
            "isCached": _refused_with("spark.sql('CACHE TABLE {}'), which does nothing if it is cached"),
        },
    ),
)

"""The Spark data source ``lakelog``: finds the table from the options and creates its readers and writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from lakelog.catalog.base import Catalog, Identifier
from lakelog.catalog.directories import bare_path
from lakelog.catalog.names import FIRST, CatalogNames
from lakelog.errors import InvalidOption, InvalidRequest, LakelogError, NotFound, UnsupportedFeature
from lakelog.io import scheme_of
from lakelog.io.storage.local import LocalFileIO
from lakelog.options.log import MAX_ROWS_PER_TRIGGER, STREAMING
from lakelog.options.storage import is_storage_option
from lakelog.spark.compat.natives import STREAM_LIMITS
from lakelog.spark.compat.sources import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    stream_reader,
)
from lakelog.spark.read.batch_reader import RELATION_OPTION, SPLITS_OPTION, LakelogReader
from lakelog.spark.read.file_stream_reader import LakelogFileStreamReader
from lakelog.spark.read.log_stream_reader import LakelogStreamReader
from lakelog.spark.read.normalized_reader import NormalizedStreamReader
from lakelog.spark.runtime.types import CATALOG_OPTION, SCHEMA_OPTION, arrow_for_spark, spark_schema
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker
from lakelog.spark.write.batch_writer import LakelogWriter
from lakelog.spark.write.stream_writer import LakelogStreamWriter
from lakelog.table.catalog_config import WAREHOUSE, CatalogConfig
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import identifier_of, open_by_name, open_by_path, scan_of
from lakelog.table.read.time_travel import with_times_in, zone_of
from lakelog.table.tail.normalizer import normalizes

_OWN = (
    "path",
    WAREHOUSE,
    CATALOG_OPTION,
    "checkpointlocation",
    "queryname",
    SPLITS_OPTION,
    SCHEMA_OPTION,
    RELATION_OPTION,
)
_NO_LIMIT = 1 << 40
"""Rows of a micro-batch of a Spark that sets no limits."""


def _is_below(path: str, warehouse: str) -> bool:
    return _comparable(path).startswith(_comparable(warehouse).rstrip("/") + "/")


def _comparable(path: str) -> str:
    """A normalised path; a local one may be relative, and it may have a scheme."""
    return LocalFileIO().absolute(path) if scheme_of(path) == "file" else bare_path(path)


def check_streams(table: DynamicTable) -> None:
    """Raises InvalidRequest if the options of a streaming read of the log want a batch."""
    if STREAMING.key in table.hints and not table.streams_log:
        raise InvalidRequest(
            f"'{STREAMING.key}'='false' of table {table.name} is a batch read: use spark.read or lake.sql, not a stream"
        )


def without_limit(table: DynamicTable) -> DynamicTable:
    """The table with micro-batches of any size. Raises UnsupportedFeature if the read asks for a limit."""
    if MAX_ROWS_PER_TRIGGER.key in table.hints:
        raise UnsupportedFeature(
            f"'{MAX_ROWS_PER_TRIGGER.key}' of table {table.name} needs Spark {STREAM_LIMITS.text}, because this Spark "
            "sets no limits to a Python source: leave it out, and a micro-batch reads all that is there"
        )
    return table.with_hints({MAX_ROWS_PER_TRIGGER.key: str(_NO_LIMIT)})


class FailedStreamReader(OwnErrors, DataSourceStreamReader):
    """Stands for a reader that could not be made, and raises its error when Spark asks for the first offset.

    If making a reader fails, Spark's process reports an error of its own instead.
    """

    def __init__(self, failure: LakelogError) -> None:
        self._failure = failure

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise self._failure

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        raise self._failure

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        raise self._failure

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._failure


class LakelogDataSource(OwnErrors, DataSource):
    """``spark.read/readStream/write/writeStream.format("lakelog")``.

    Options: ``path`` (the argument of ``load``, ``save``, ``start``) is ``db.table``, ``catalog.db.table`` or a table's
    directory. ``catalog`` or ``warehouse`` sets where ``db.table`` is resolved. Every read and write option of the
    table (``read.mode``, ``emit.mode``, …) is allowed, too. ``lakelog.connect`` sets on a subclass: ``catalogs``
    (configurations by catalog name, with access to the storage), ``first``, ``counts`` (where the driver collects
    counts), ``zone`` (the time zone of the session, for times as text). Storage options are also allowed as options.
    """

    catalogs: ClassVar[Mapping[str, CatalogConfig]] = {}
    first: ClassVar[str] = "lakelog"
    counts: ClassVar[str | None] = None
    zone: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "lakelog"

    def opened(self, scope: str) -> DynamicTable:
        """The table that the options name; ``scope`` is that of its options. Raises InvalidOption, NotFound."""
        options = {k.lower(): v for k, v in self.options.items()}
        table, number = self._newest_table(options, scope), options.get(SCHEMA_OPTION, "")
        if not number.isdigit() or int(number) >= table.schema.id:
            return table
        known = next(table.store.schemas.own([int(number)]), None)  # none: of a table that was replaced
        return table if known is None or known.fields == table.schema.fields else table.with_schema(known)

    def _newest_table(self, options: Mapping[str, str], scope: str) -> DynamicTable:
        prepare_worker(self.counts)
        path = options.get("path")
        if not path:
            raise InvalidOption(
                "the table is missing: name it in load(), save() or start(), as 'db.table' or a table's directory"
            )
        identifier = None if "/" in path else identifier_of(path)
        config = self._config_of(options, path, identifier)
        storage_options = {k: v for k, v in options.items() if is_storage_option(k)}
        storage = {**({} if config is None else config.storage), **storage_options}
        hints = with_times_in(
            {k: v for k, v in options.items() if k not in _OWN and k not in storage_options}, zone_of(self.zone)
        )
        known = None if config is None or WAREHOUSE in options else config.catalog
        others = None if config is None or WAREHOUSE in options else self._catalog
        if identifier is None:
            is_known = config is not None and _is_below(path, config.warehouse)
            return open_by_path(path, hints, scope, storage, *((known, others) if is_known else ()))
        warehouse = options.get(WAREHOUSE) or (None if config is None else config.warehouse)
        if not warehouse:
            raise InvalidOption(
                f"the warehouse of '{path}' is missing: use lakelog.connect(spark, warehouse=…), or "
                ".option('warehouse', …)"
            )
        return open_by_name(warehouse, identifier, hints, scope, storage, known, others)

    def _catalog(self, name: str) -> Catalog:
        """The catalog of a table that another one names. Raises NotFound."""
        if name not in self.catalogs:
            raise NotFound(f"catalog '{name}' is not one of this session: {', '.join(filter(None, self.catalogs))}")
        return self.catalogs[name].open()

    def _config_of(self, options: Mapping[str, str], path: str, identifier: Identifier | None) -> CatalogConfig | None:
        """The named catalog, else the one that contains a directory, else the first. Raises NotFound."""
        name = (identifier.catalog if identifier else "") or options.get(CATALOG_OPTION, "")
        if name and WAREHOUSE not in options:
            names = CatalogNames(self.first, tuple(other for other in self.catalogs if other != FIRST))
            return self.catalogs.get(names.need(name))
        around = [c for c, p in self.catalogs.items() if identifier is None and _is_below(path, p.warehouse)]
        return self.catalogs.get(max(around, key=lambda c: len(self.catalogs[c].warehouse), default=FIRST))

    def schema(self) -> StructType:
        table = self.opened("read")
        if table.reads_log:
            return spark_schema(LogScan(table).schema)
        return spark_schema(scan_of(table).schema)

    def _batch(self) -> DynamicTable:
        """The table of a batch read; raises InvalidRequest if the options want a stream."""
        table = self.opened("read")
        if table.reads_log and STREAMING.key in table.hints and table.streams_log:
            raise InvalidRequest(
                f"'{STREAMING.key}'='true' of table {table.name} needs spark.readStream: spark.read is a batch read"
            )
        return table.with_hints({STREAMING.key: "false"}) if table.reads_log else table

    def reader(self, schema: StructType) -> DataSourceReader:
        splits = next((v for k, v in self.options.items() if k.lower() == SPLITS_OPTION), None)
        return LakelogReader(self._batch(), schema, splits)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            table = self.opened("read")
            if not STREAM_LIMITS:
                table = without_limit(table)
            if not table.reads_log:
                return stream_reader(LakelogFileStreamReader(table, schema))
            check_streams(table)
            return stream_reader((NormalizedStreamReader if normalizes(table) else LakelogStreamReader)(table, schema))
        except LakelogError as failure:
            return FailedStreamReader(failure)

    def writer(self, schema: StructType, overwrite: bool) -> LakelogWriter:
        table = self.opened("write")
        table.check_rows_writable()
        return LakelogWriter(table, arrow_for_spark(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakelogStreamWriter:  # noqa: N802
        table = self.opened("write")
        table.check_rows_writable()
        return LakelogStreamWriter(table, arrow_for_spark(schema), overwrite)

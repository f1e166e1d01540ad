"""Sources that Arrow reads without Spark: Parquet files, Delta Lake, Apache Iceberg."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow.fs import FileSelector, FileSystem, FileType

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound
from lakelog.lake import Lake
from lakelog.options.registry import load_target
from lakelog.service.migration.source import ArrowSource, partitions_in

_EXTRAS: Final = {"deltalake": "delta", "pyiceberg": "iceberg"}
_PARQUET: Final = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
"""INT96 in nanoseconds would overflow before 1677 and after 2262."""
_SPARK_VERSION: Final = b"org.apache.spark.version"
_LEGACY: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_CALENDAR: Final = date(1582, 10, 15)
_ZONES: Final = date(1900, 1, 1)
"""Spark 2 also converted older times by the present offset of their zone."""
_LOGS: Final = {"_delta_log": "--from delta", ".hoodie": "--from spark", "_spark_metadata": "--from spark"}
"""Folders that say which files of a directory are the table, and what reads them."""


class _DatasetSource(ArrowSource):
    """Rows of files that Arrow reads as one data set."""

    def __init__(self, files: Any, partition_by: Sequence[str]) -> None:
        self._files, self.schema, self.partition_by = files, files.schema, tuple(partition_by)

    def count(self) -> int:
        """The number of rows, from the footers of the files."""
        return int(self._files.count_rows())

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, file by file."""
        return iter(self._files.to_batches(columns=None if columns is None else list(columns)))


class ParquetSource(_DatasetSource):
    """A Parquet file, or a directory of them whose folders ``name=value`` are partitions.

    The columns are those of all files. Raises NotFound, InvalidRequest for other files and tables, InvalidSchema if a
    column has different types.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        try:
            files = dataset.dataset(address, format=_PARQUET, partitioning="hive")
            if not files.files:
                raise NotFound(f"'{address}' has no Parquet file: name the directory of the table")
            _check_whole(files, address)
            schema = pa.unify_schemas([files.schema, *(part.physical_schema for part in files.get_fragments())])
        except FileNotFoundError:
            raise NotFound(f"'{address}' does not exist: name a Parquet file or a directory of them") from None
        except pa.ArrowTypeError as why:
            raise InvalidSchema(f"the files of '{address}' do not have the same columns: {why}") from why
        except (OSError, pa.ArrowInvalid) as why:
            raise InvalidRequest(f"'{address}' cannot be read as Parquet files: {why}") from why
        super().__init__(files.replace_schema(schema), partitions_in(files.files, schema.names))
        self._legacy = frozenset(part.path for part in files.get_fragments() if _has_legacy_calendar(part.metadata))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, file by file. Raises InvalidRequest for a time of a file in another calendar."""
        if not self._legacy:
            yield from super().batches(columns)
            return
        names = None if columns is None else list(columns)
        for part in self._files.get_fragments():
            for batch in part.to_batches(schema=self.schema, columns=names):
                if part.path in self._legacy:
                    _check_calendar(batch, part.path)
                yield batch


def _has_legacy_calendar(footer: Any) -> bool:
    """True for a file in which Spark has counted the days before 1582 in the Julian calendar."""
    found: dict[bytes, bytes] = footer.metadata or {}
    version = found.get(_SPARK_VERSION, b"3").partition(b".")[0]
    return any(key in found for key in _LEGACY) or (version.isdigit() and int(version) < 3)


def _check_calendar(batch: pa.RecordBatch, path: str) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        limit = _CALENDAR if pa.types.is_date(field.type) else _ZONES if pa.types.is_timestamp(field.type) else None
        oldest = None if limit is None else pc.min(pc.cast(column, pa.date32(), safe=False)).as_py()
        if limit is not None and oldest is not None and oldest < limit:
            raise InvalidRequest(
                f"column '{field.name}' of '{path}' has the day {oldest} in the calendar of Spark 2, which counts days "
                f"before {limit} otherwise: migrate --from spark 'parquet.`DIRECTORY`', which converts them"
            )


def _check_whole(files: Any, address: str) -> None:
    """Raises InvalidRequest for a directory whose rows are not those of all its files, or in which Arrow skips some."""
    place = (FileSystem.from_uri(address)[1] if "://" in address else address).rstrip("/")
    if files.filesystem.get_file_info(place).type is not FileType.Directory:
        return
    for found in files.filesystem.get_file_info(FileSelector(place, recursive=True)):
        folders = found.path[len(place) :].strip("/").split("/")
        if folders[0] in _LOGS:
            raise InvalidRequest(
                f"'{address}' has a folder {folders[0]}, which says which of the files are the table: "
                f"write {_LOGS[folders[0]]}"
            )
        skipped = [name for name in folders if name.startswith("_") and "=" in name]
        if skipped and found.type is FileType.File:
            raise InvalidRequest(
                f"Arrow skips the folder '{skipped[0]}' of '{address}', because its name begins with '_': "
                "write --from spark 'parquet.`DIRECTORY`', or rename the folder"
            )


class DeltaSource(_DatasetSource):
    """The newest version of a Delta table at a path or URI, by ``deltalake``.

    Raises NotInstalled, and the errors of deltalake, such as that of deletion vectors, which Arrow's data sets do not
    apply.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        table = load_target("client", "delta", "deltalake:DeltaTable", _EXTRAS)(address)
        super().__init__(table.to_pyarrow_dataset(), table.metadata().partition_columns)


class IcebergSource(ArrowSource):
    """The current snapshot of an Iceberg table, by ``pyiceberg``: ``catalog.db.table``.

    The catalog is one of pyiceberg's configuration. Partitions by a transform of a column are not taken over. Raises
    NotInstalled, and the errors of pyiceberg.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        catalog, dot, name = address.partition(".")
        if not dot:
            raise InvalidRequest(f"'{address}' does not name a table of a catalog: write catalog.db.table")
        load_catalog = load_target("client", "iceberg", "pyiceberg.catalog:load_catalog", _EXTRAS)
        table = load_catalog(catalog).load_table(name)
        self._scan = table.scan()
        self.schema = self._scan.projection().as_arrow()
        self.partition_by = tuple(
            table.schema().find_column_name(field.source_id)
            for field in table.spec().fields
            if str(field.transform) == "identity"
        )

    def count(self) -> int:
        """The number of rows, from the metadata where no row is deleted."""
        return int(self._scan.count())

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, file by file."""
        return iter((self._scan if columns is None else self._scan.select(*columns)).to_arrow_batch_reader())

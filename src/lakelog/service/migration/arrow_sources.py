"""Sources that Arrow reads without Spark: Parquet files, Delta Lake, Apache Iceberg."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow.fs import FileSelector, FileSystem, FileType

from lakelog.errors import InvalidRequest, NotFound
from lakelog.lake import Lake
from lakelog.options.registry import load_target
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.service.migration.columns import aligned, common_schema
from lakelog.service.migration.source import ArrowSource
from lakelog.table.model.partition_selection import partition_value

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
        super().__init__()
        self._files, self.partition_by = files, tuple(partition_by)
        self._set_schema(files.schema)

    def count(self) -> int:
        """The number of rows, from the footers of the files."""
        return int(self._files.count_rows())

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self._files.to_batches(columns=list(columns)))


class ParquetSource(ArrowSource):
    """A Parquet file, or a directory of them whose folders ``name=value`` are partitions.

    The columns are those of all files, by names without regard to case. The values of folders are text, or INT if all
    are written as whole numbers. Raises NotFound, InvalidRequest for other files and tables, InvalidSchema if a column
    has different types.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        super().__init__()
        try:
            files = dataset.dataset(address, format=_PARQUET, partitioning="hive")
            if not files.files:
                raise NotFound(f"'{address}' has no Parquet file: name the directory of the table")
            _check_whole(files, address)
            self._parts = list(files.get_fragments())
            folders = _folder_values([part.path for part in self._parts], _place(address))
            keys = {name.lower(): name for folder in folders for name in folder}
            schemas = [(part.path, _without(part.physical_schema, keys)) for part in self._parts]
        except FileNotFoundError:
            raise NotFound(f"'{address}' does not exist: name a Parquet file or a directory of them") from None
        except (OSError, pa.ArrowInvalid) as why:
            hint = "; 'lakelog load' reads files of rows" if address.endswith((".csv", ".jsonl", ".arrow")) else ""
            raise InvalidRequest(f"'{address}' cannot be read as Parquet files: {why}{hint}") from why
        self._columns = common_schema(schemas)
        self._folders = [{name.lower(): value for name, value in folder.items()} for folder in folders]
        values = ((name, [folder.get(fold) for folder in self._folders]) for fold, name in keys.items())
        self._set_schema(pa.schema([*self._columns, *(pa.field(name, _folder_type(v)) for name, v in values)]))
        self.partition_by = tuple(keys.values())

    def count(self) -> int:
        """The number of rows, from the footers of the files."""
        return sum(int(part.count_rows()) for part in self._parts)

    def fit(self, definition: TableSchema) -> None:
        """Takes over the table's names, and its types for the values of folders."""
        self._fit_names(definition)
        target = arrow_schema(definition.fields)
        folders = {name.lower() for name in self.partition_by}
        fields = [target.field(f.name) if f.name.lower() in folders else f for f in self.schema]
        self.schema = pa.schema(fields)
        self._definition = definition

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        fields = [self._columns.field(name) for name in columns if name in self._columns.names]
        for part, folders in zip(self._parts, self._folders, strict=True):
            names_there = {name.lower(): name for name in part.physical_schema.names}
            read = [names_there[field.name.lower()] for field in fields if field.name.lower() in names_there]
            is_legacy = _has_legacy_calendar(part.metadata)
            for batch in part.to_batches(schema=part.physical_schema, columns=read):
                if is_legacy:
                    _check_calendar(batch, part.path)
                rows = aligned(batch, pa.schema(fields))
                yield self._with_folders(rows, batch.num_rows, columns, folders)

    def _with_folders(
        self, rows: pa.RecordBatch, count: int, columns: Sequence[str], folders: Mapping[str, str | None]
    ) -> pa.RecordBatch:
        """``count`` rows of one file with the values of its folders, in the order of ``columns``."""
        arrays = []
        for name in columns:
            if name in rows.schema.names:
                arrays.append(rows.column(name))
                continue
            field, value = self.schema.field(self._spelled[name]), folders.get(name.lower())
            arrays.append(pa.repeat(_folder_value(value, field, self._definition), count))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _place(address: str) -> str:
    return (FileSystem.from_uri(address)[1] if "://" in address else address).rstrip("/")


def _without(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The columns of a file but those that are folders, whose values win, as in Spark."""
    return pa.schema([field for field in schema if field.name.lower() not in names])


def _folder_values(paths: Sequence[str], place: str) -> list[dict[str, str | None]]:
    """The values of the folders of each file, as text."""
    folders = [path.rpartition("/")[0].removeprefix(place) for path in paths]
    names = {part.partition("=")[0] for folder in folders for part in folder.split("/") if "=" in part}
    text = dataset.partitioning(pa.schema([pa.field(name, pa.string()) for name in sorted(names)]), flavor="hive")
    return [dict(dataset.get_partition_keys(text.parse(f"{folder.strip('/')}/"))) for folder in folders]


def _folder_type(values: Sequence[str | None]) -> pa.DataType:
    """INT if each value is a number that is written as it would be printed; else text, such as 01234 and 0x10."""
    is_whole = all(v is None or re.fullmatch(r"0|-?[1-9]\d{0,9}", v) and abs(int(v)) < 1 << 31 for v in values)
    return pa.int32() if is_whole and any(v is not None for v in values) else pa.string()


def _folder_value(value: str | None, field: pa.Field, definition: TableSchema | None) -> pa.Scalar:
    """The value of a folder in the type of its column. Raises InvalidRequest, InvalidSchema for one that is none."""
    if value is not None and definition is not None:
        kind = definition.field(field.name).type
        return pa.scalar(partition_value(field.name, kind, value), field.type)
    return pa.scalar(value, pa.string()).cast(field.type)


def _has_legacy_calendar(footer: Any) -> bool:
    """True for a file in which Spark has counted the days before 1582 in the Julian calendar."""
    metadata: dict[bytes, bytes] = footer.metadata or {}
    version = metadata.get(_SPARK_VERSION, b"3").partition(b".")[0]
    return any(key in metadata for key in _LEGACY) or (version.isdigit() and int(version) < 3)


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
    place = _place(address)
    if files.filesystem.get_file_info(place).type is not FileType.Directory:
        return
    for file in files.filesystem.get_file_info(FileSelector(place, recursive=True)):
        folders = file.path[len(place) :].strip("/").split("/")
        if folders[0] in _LOGS:
            raise InvalidRequest(
                f"'{address}' has a folder {folders[0]}, which says which of the files are the table: "
                f"write {_LOGS[folders[0]]}"
            )
        skipped = [name for name in folders if name.startswith("_") and "=" in name]
        if skipped and file.type is FileType.File:
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
        super().__init__()
        self._scan = table.scan()
        self._set_schema(self._scan.projection().as_arrow())
        self.partition_by = tuple(
            table.schema().find_column_name(field.source_id)
            for field in table.spec().fields
            if str(field.transform) == "identity"
        )

    def count(self) -> int:
        """The number of rows, from the metadata where no row is deleted."""
        return int(self._scan.count())

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self._scan.select(*columns).to_arrow_batch_reader())

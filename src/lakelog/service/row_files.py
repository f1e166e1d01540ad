"""Import and export of rows; the extension of the file determines the format."""

from __future__ import annotations

import contextlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pjson
import pyarrow.parquet as pq

from lakelog.errors import Corrupt, InvalidRequest, InvalidSchema
from lakelog.io.metrics import METER, Step
from lakelog.paimon.types.exact_casts import wide_type
from lakelog.paimon.types.text_decimals import cast_text
from lakelog.service.json_lines import read_json_lines
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan

_BLOCK: Final = 8 << 20


class RowFile(ABC):
    """A file in writing; ``with`` closes it."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""

    @abstractmethod
    def close(self) -> None:
        """Ends the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _ArrowWriter(RowFile):
    """Formats with a writer in Arrow."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


Printer = Callable[[io.TextIOBase], Callable[[pa.Table, bool], None]]
"""Stream → function that prints a chunk of rows there (and whether it is the first); defined by the command line."""


class _Printed(RowFile):
    """Rows in the text formats of the command line."""

    def __init__(self, path: Path, printer: Printer) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._print, self._is_first = printer(self._file), True

    def write(self, batch: pa.RecordBatch) -> None:
        self._print(pa.Table.from_batches([batch]), self._is_first)
        self._is_first = False

    def close(self) -> None:
        self._file.close()


def export_rows(scan: TableScan, path: Path, printers: Mapping[str, Printer]) -> int:
    """Writes the rows of a scan to a file (.parquet, .arrow, or an extension with a printer); returns their number.

    The file appears when it is complete, and replaces an existing one. Raises InvalidRequest for another extension and
    for a file that cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with (
            METER.step("export", "rows", _most_rows(scan), table=scan.table.name) as step,
            _opened(part, path.suffix, scan.schema, printers) as file,
        ):
            for batch in scan.to_batches():
                file.write(batch)
                step.advance(batch.num_rows)
        os.replace(part, path)
    except OSError as why:
        raise InvalidRequest(f"cannot write '{path}': {why.strerror or why}") from why
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return step.done


def _most_rows(scan: TableScan) -> int | None:
    """Number of rows before merges; None if a filter makes it meaningless, or only the read itself knows."""
    if not isinstance(scan, Scan) or scan.filter is not None or scan.residual is not None:
        return None
    return sum(split.row_count for split in scan.plan())


def _opened(part: Path, suffix: str, schema: pa.Schema, printers: Mapping[str, Printer]) -> RowFile:
    if suffix == ".parquet":
        return _ArrowWriter(pq.ParquetWriter(part, schema, compression="zstd"))
    if suffix == ".arrow":
        return _ArrowWriter(pa.ipc.new_file(str(part), schema))
    if suffix in printers:
        return _Printed(part, printers[suffix])
    endings = ", ".join((".parquet", ".arrow", *printers))
    if not suffix:
        raise InvalidRequest(
            f"the file name has no extension, which selects the format: use one of {endings}. 'lakelog head' and "
            "'lakelog sql' print rows"
        )
    raise InvalidRequest(f"extension '{suffix}' is not a known format: use one of {endings}")


def read_rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file (.parquet, .arrow, .csv with a header, .jsonl), in the types of a table's columns.

    Raises InvalidRequest for another extension and for an unreadable file, InvalidSchema for rows that do not fit.
    """
    try:
        with METER.step("load", "bytes", path.stat().st_size if path.exists() else None, file=str(path)) as step:
            yield from _read(path, schema, step)
    except FileNotFoundError:
        raise InvalidRequest(f"'{path}' does not exist") from None
    except (pa.ArrowInvalid, Corrupt) as why:
        raise InvalidSchema(f"'{path}' does not fit the table: {why}") from why
    except OSError as why:
        raise InvalidRequest(f"cannot read '{path}': {why}") from why


def file_schema(path: Path) -> pa.Schema:
    """The columns of a file that ``read_rows`` reads; those of text formats follow from its first rows.

    Raises InvalidRequest for another extension and for an unreadable file.
    """
    try:
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as arrow:
                return arrow.schema
        if path.suffix == ".csv":
            with pcsv.open_csv(path, pcsv.ReadOptions(block_size=_BLOCK), convert_options=_converted({})) as rows:
                return rows.schema
        if path.suffix == ".jsonl":
            with pjson.open_json(path, pjson.ReadOptions(block_size=_BLOCK)) as rows:
                return rows.schema
    except FileNotFoundError:
        raise InvalidRequest(f"'{path}' does not exist") from None
    except (pa.ArrowException, OSError) as why:
        raise InvalidRequest(f"cannot read '{path}': {why}") from why
    raise _unknown_extension(path)


def _unknown_extension(path: Path) -> InvalidRequest:
    return InvalidRequest(f"extension '{path.suffix}' is not a known format: use one of .parquet, .arrow, .csv, .jsonl")


def _converted(types: Mapping[str, pa.DataType]) -> pcsv.ConvertOptions:
    """The conversion of CSV: an empty field without quotes is NULL; NA and null are texts, and NaN is a number."""
    return pcsv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _with_decimals(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of text with the decimals of a table."""
    for at, field in enumerate(batch.schema):
        if (known := schema.get_field_index(field.name)) >= 0 and pa.types.is_decimal(kind := schema.field(known).type):
            batch = batch.set_column(at, schema.field(known), cast_text(batch.column(at), kind))
    return batch


def _read(path: Path, schema: pa.Schema, step: Step) -> Iterator[pa.RecordBatch]:
    """The rows of a file; ``step`` gets the read bytes, or in formats with row counts the share of the read rows."""
    suffix, size = path.suffix, step.total or 0
    if suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                step.advance(size * batch.num_rows // file.metadata.num_rows)
                yield batch
    elif suffix == ".arrow":
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                step.advance(size // reader.num_record_batches)
                yield reader.get_batch(number)
    elif suffix == ".csv":
        types = {f.name: pa.string() if pa.types.is_decimal(f.type) else wide_type(f.type) for f in schema}
        with (
            pa.OSFile(str(path)) as source,
            pcsv.open_csv(source, pcsv.ReadOptions(block_size=_BLOCK), convert_options=_converted(types)) as reader,
        ):
            for batch in reader:
                step.done = source.tell()
                yield _with_decimals(batch, schema)
    elif suffix == ".jsonl":
        rows = read_json_lines(path.read_bytes(), schema)
        for batch in rows.to_batches(max_chunksize=65_536):
            step.advance(size * batch.num_rows // rows.num_rows)
            yield batch
    else:
        raise _unknown_extension(path)

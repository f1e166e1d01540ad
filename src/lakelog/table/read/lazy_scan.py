"""A scan as a lazy frame of polars and as a data set of pyarrow: they say which columns and rows they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol, Self

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from polars.io.plugins import register_io_source

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.skipping.polars_conditions import skipping_part_of_polars
from lakelog.filestore.skipping.predicate import Predicate


class Narrowable(Protocol):
    """A batch read that can be narrowed before it reads."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""

    def select(self, columns: Sequence[str] | None) -> Self:
        """With some columns."""

    def limit(self, rows: int) -> Self:
        """With at most this many rows."""

    def also(self, condition: Predicate | pc.Expression | None) -> Self:
        """With a further condition on columns of the result."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""


def lazy_frame(scan: Narrowable) -> pl.LazyFrame:
    """The rows of a scan as a polars LazyFrame, which is read when it is collected.

    polars asks for the columns that its query needs. Comparisons with values skip files, and polars applies the whole
    filter again.
    """

    def frames(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        read = scan if with_columns is None else scan.select(with_columns)
        if n_rows is not None:  # polars counts the rows before its filter
            read = read.limit(n_rows)
        elif predicate is not None:
            read = scan.also(skipping_part_of_polars(predicate, scan.schema)).select(with_columns)
        for batch in read.to_batches():
            frame = pl.DataFrame(batch)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(frames, schema=pl.DataFrame(scan.schema.empty_table()).schema)


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a scan as a data set of pyarrow: columns and filters of ``scanner`` reach the scan.

    DuckDB, DataFusion and polars (``scan_pyarrow_dataset``) take it, and read only what their query needs.
    """

    def __init__(self, scan: Narrowable) -> None:
        self._scan = scan

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._scan,)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scan."""
        return self._scan.schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """A scanner of some columns, or of expressions by name, and of the rows that match a filter.

        ``options`` are those of pyarrow for threads and buffers, which a scan does not need.
        """
        scan = self._scan.also(filter)
        if columns is None or isinstance(columns, Mapping):
            return ds.Scanner.from_batches(scan.to_batches(), schema=scan.schema, columns=columns)
        scan = scan.select(list(columns))
        return ds.Scanner.from_batches(scan.to_batches(), schema=scan.schema)

    def _of_files(self, *arguments: Any, **named: Any) -> NoReturn:
        raise UnsupportedFeature(
            "the files of a table are not its rows, which are merged when they are read: call to_table() or scanner()"
        )

    filter = get_fragments = join = join_asof = replace_schema = sort_by = _of_files

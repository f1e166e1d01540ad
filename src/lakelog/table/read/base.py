"""The common parts of every read of a table: a plan of splits, batches of one split, all rows as Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset

from lakelog.errors import InvalidRequest, InvalidSchema, NotInstalled
from lakelog.filestore.skipping.arrow_conditions import skipping_part
from lakelog.filestore.skipping.predicate import Predicate, conjunction, conjuncts
from lakelog.filestore.skipping.predicate_text import predicate_text
from lakelog.options.boundary import Public, shown_value
from lakelog.options.notebook import NotebookView
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.null_rows import cast_rows
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.lazy_scan import ScanDataset, lazy_frame

if TYPE_CHECKING:
    import pandas as pd

Reads = Callable[[Sequence[str], Predicate | None], Iterator[pa.RecordBatch]]
"""Reads rows: from table columns and a filter on them to batches of these columns and ``_row_kind``."""


class ArrowRows(Public, ABC):
    """Rows as an Arrow stream, for polars, pandas, DuckDB and pyarrow. Methods raise the errors of ``to_reader``."""

    @abstractmethod
    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as an Arrow reader (for DuckDB, polars, pandas)."""

    def to_arrow(self) -> pa.Table:
        """All rows in one Arrow table."""
        return self.to_reader().read_all()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame."""
        return pl.DataFrame(self.to_arrow())

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame. Raises NotInstalled without pandas."""
        return pandas_of(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, repr=False)
class TableScan(NotebookView, ArrowRows):
    """A lazy batch read of a table or of one view of it. Picklable.

    ``columns`` (None: all) and ``filter`` refer to ``row_schema``, the columns of the view. ``max_rows`` is the maximum
    number of rows of the result as a whole, and ``residual`` a further condition on its rows, as an Arrow expression;
    ``read`` of a split applies neither.
    """

    table: DynamicTable
    columns: tuple[str, ...] | None = None
    filter: Predicate | None = None
    max_rows: int | None = field(default=None, kw_only=True)
    residual: pc.Expression | None = field(default=None, kw_only=True)

    @property
    def row_schema(self) -> TableSchema:
        """The columns of the view."""
        return self.table.schema

    @abstractmethod
    def plan(self) -> Sequence[Any]:
        """The splits to read; picklable."""

    @abstractmethod
    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one split; called on executors too."""

    def select(self, columns: Sequence[str] | None) -> Self:
        """The same scan with other columns; raises InvalidSchema for an unknown one."""
        known = self.row_schema.field_names
        if isinstance(columns, str):
            raise InvalidRequest(f"columns = '{columns}' is text: give a list of names")
        for column in columns or ():
            if column not in known:
                raise InvalidSchema(f"table {self.table.name} has no column '{column}'; it has: {', '.join(known)}")
        return replace(self, columns=None if columns is None else tuple(columns))

    def where(self, filter: Predicate | None) -> Self:
        """The same scan with a filter on columns of ``row_schema``; ``Table.scan(filter=…)`` takes texts, too."""
        if not (filter is None or isinstance(filter, Predicate)):
            raise InvalidRequest(f"where({shown_value(filter)}) is no predicate: pass it as Table.scan(filter=…)")
        return replace(self, filter=filter)

    def also(self, condition: Predicate | pc.Expression | None) -> Self:
        """The same scan with a further condition on its rows; ``Table.scan(filter=…)`` takes texts, too.

        Comparisons of columns with values skip files, also in an Arrow expression.
        """
        if condition is None:
            return self
        residual, part = self.residual, condition
        if not isinstance(condition, Predicate):
            residual = condition if residual is None else residual & condition
            part = skipping_part(condition, arrow_schema(self.row_schema.fields))
        return replace(self, filter=conjunction(p for p in (self.filter, part) if p is not None), residual=residual)

    def limit(self, rows: int) -> Self:
        """The same scan with at most this many rows, in no defined order. Raises InvalidRequest for less than 0."""
        if rows < 0:
            raise InvalidRequest(f"limit({rows}): give 0 or a positive number of rows")
        return replace(self, max_rows=rows if self.max_rows is None else min(rows, self.max_rows))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        whole = arrow_schema(self.row_schema.fields)
        return whole if self.columns is None else pa.schema([whole.field(c) for c in self.columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch, in bounded memory."""
        left = self.max_rows
        for batch in self._matching() if left != 0 else ():
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if left == 0:
                return

    def _matching(self) -> Iterator[pa.RecordBatch]:
        """All rows that match ``residual``. Reads its columns, too: those whose names are in its text."""
        condition = self.residual
        if condition is None:
            for split in self.plan():
                yield from self.read(split)
            return
        names = self.schema.names
        also = [name for name in self.row_schema.field_names if name not in names and name in str(condition)]
        wide = self.select([*names, *also])
        for split in wide.plan():
            for batch in wide.read(split):
                yield batch.filter(condition).select(names)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as an Arrow reader (for DuckDB, polars, pandas)."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_lazy(self) -> pl.LazyFrame:
        """The rows as a polars LazyFrame: ``t.scan().to_lazy().filter(pl.col("id") == 5).select("name").collect()``.

        It is read when it is collected, with the columns, filters and limit of the query. Comparisons with values skip
        files. Raises InvalidRequest for a scan with a limit, whose rows a filter would change.
        """
        self._check_whole("to_lazy")
        return lazy_frame(self)

    def to_dataset(self) -> pa_dataset.Dataset:
        """The rows as a pyarrow Dataset: ``t.scan().to_dataset().to_table(columns=["name"], filter=field("id") == 5)``.

        DuckDB reads only the columns and files that its query needs: ``d = t.scan().to_dataset()``, then
        ``duckdb.sql("select name from d where id = 5")``. Raises InvalidRequest for a scan with a limit.
        """
        self._check_whole("to_dataset")
        return ScanDataset(self)

    def _check_whole(self, method: str) -> None:
        if self.max_rows is not None:
            raise InvalidRequest(f"{method}() of a scan with limit({self.max_rows}): put the limit into the query")

    def head(self, rows: int = 5) -> pa.Table:
        """The first rows that the scan finds, in no defined order, in one Arrow table."""
        return self.limit(rows).to_arrow()

    def count(self) -> int:
        """Number of rows. Reads one column, and nothing of data files whose rows the metadata counts."""
        return sum(batch.num_rows for batch in self._narrow.to_batches())

    @property
    def _narrow(self) -> Self:
        """The same rows with one column, which a merge reads anyway."""
        return self.select(self.row_schema.primary_keys[:1] or self.row_schema.field_names[:1])

    def __repr__(self) -> str:
        facts = [f"{name}: {value}" for name, value in self._facts().items() if value is not None]
        return f"{type(self).__name__}({'; '.join([self.table.name, *facts])})"

    def _facts(self) -> Mapping[str, object]:
        return {
            "columns": None if self.columns is None else ", ".join(self.columns),
            "filter": None if self.filter is None else predicate_text(self.filter),
            "also": self.residual,
            "limit": self.max_rows,
        }

    def notebook_facts(self) -> Mapping[str, object]:
        """The table, and what the scan reads of it; reads nothing itself."""
        return {"table": self.table.name, **self._facts(), "result": ", ".join(map(_column, self.schema))}


def _column(field: pa.Field) -> str:
    return f"{field.name} {field.type}"


def pandas_of(rows: pa.Table) -> pd.DataFrame:
    """An Arrow table as a pandas DataFrame. Raises NotInstalled without pandas."""
    try:
        return rows.to_pandas()
    except ModuleNotFoundError as missing:
        raise NotInstalled("to_pandas() needs: pip install pandas") from missing


def without_kind(filter: Predicate | None, kind_column: str = ROW_KIND_COLUMN) -> Predicate | None:
    """The part of a filter that only uses columns of the table."""
    return conjunction(part for part in conjuncts(filter) if kind_column not in part.columns)


def rows_of(scan: TableScan, read: Reads, kind_column: str = ROW_KIND_COLUMN) -> Iterator[pa.RecordBatch]:
    """The rows of a scan of changes: reads the required columns with the filter, applies the rest here.

    ``kind_column`` is the scan's name for ``_row_kind``.
    """
    rest = conjunction(part for part in conjuncts(scan.filter) if kind_column in part.columns)
    names = scan.schema.names
    extra = sorted(rest.columns - set(names)) if rest else []
    columns = [name for name in (*names, *extra) if name != kind_column]
    for batch in read(columns, without_kind(scan.filter, kind_column)):
        yield from chosen(batch.rename_columns([*columns, kind_column]), scan.schema, rest)


def chosen(rows: pa.RecordBatch | pa.Table, schema: pa.Schema, filter: Predicate | None) -> Iterator[pa.RecordBatch]:
    """The rows that match, with the columns of a schema."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    kept = table if filter is None else table.filter(filter.to_arrow(table.schema))
    yield from (b for b in cast_rows(kept.select(schema.names), schema).to_batches() if b.num_rows)

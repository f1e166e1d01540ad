"""The result of ``Lake.sql``: one set of methods for the rows of every statement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import polars as pl
import pyarrow as pa

from lakelog.lake.output.plain_rows import plain_rows
from lakelog.options.boundary import Public
from lakelog.options.notebook import rows_html
from lakelog.options.registry import Registry
from lakelog.table.read.base import pandas_of

if TYPE_CHECKING:
    import pandas as pd

_ROWS: Final[Registry[pa.Table]] = Registry("rows of", {"spark": "lakelog.spark.runtime.arrow_rows:arrow_rows"})
_SHOWN: Final = 20
"""Rows that ``show`` and a notebook display, as Spark does."""
_WIDTH: Final = 20
"""Characters after which ``show`` cuts a value, as Spark does."""
SHARED_NAMES: Final = frozenset({"columns", "drop", "filter", "join", "schema", "select"})
"""Attributes of a DataFrame that a pyarrow Table has with another meaning, and ``TableResult`` does not define."""


class Row(tuple[Any, ...]):
    """One row with its columns by position, by name and as attributes, as Spark's ``Row`` has them."""

    __fields__: tuple[str, ...]

    def __new__(cls, names: Sequence[str], values: Iterable[Any]) -> Row:
        row = super().__new__(cls, values)
        row.__fields__ = tuple(names)
        return row

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - the name of Spark's Row
        """The values by column."""
        return dict(zip(self.__fields__, self, strict=True))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._position(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.__fields__:
            raise AttributeError(name)
        return self[name]

    def _position(self, name: str) -> int:
        if name not in self.__fields__:
            raise KeyError(name)
        return self.__fields__.index(name)

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self.__fields__, self, strict=True))})"

    def __reduce__(self) -> Any:
        return Row, (self.__fields__, tuple(self))


class Result(Protocol):
    """The rows of a statement: a Spark DataFrame for a query on Spark, a ``TableResult`` for any other.

    These methods exist on both. Anything else is a method of the DataFrame where there is Spark, or of a pyarrow Table.
    """

    def show(self, n: int = _SHOWN, truncate: bool | int = True) -> None:
        """Prints the first ``n`` rows. ``truncate`` cuts long values, at 20 characters or at this number."""

    def to_arrow(self) -> pa.Table:
        """All rows in one Arrow table."""

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame. Raises NotInstalled without pandas."""

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame."""

    def collect(self) -> Sequence[Any]:
        """All rows, each with its columns by position, by name and as attributes."""

    def take(self, num: int) -> Sequence[Any]:
        """The first ``num`` rows."""

    def first(self) -> Any:
        """The first row; None without rows."""

    def count(self) -> int:
        """The number of rows."""

    def __getattr__(self, name: str) -> Any:
        """Other methods of the DataFrame or the Arrow table."""


class TableResult(Public):
    """The rows of a statement in this process, with all attributes of their pyarrow Table.

    ``frame`` returns the query's DataFrame. With it, attributes that a DataFrame has are those of the DataFrame.
    """

    def __init__(self, rows: pa.Table, frame: Callable[[], Any] | None = None) -> None:
        self._rows = rows
        self._frame = None if frame is None else cache(frame)

    def show(self, n: int = _SHOWN, truncate: bool | int = True) -> None:
        """Prints the first ``n`` rows, as Spark's ``show`` does; nothing for a statement without columns."""
        if self._rows.num_columns:
            sys.stdout.write(self._text(n, _WIDTH if truncate is True else int(truncate)) + "\n\n")

    def to_arrow(self) -> pa.Table:
        """All rows in one Arrow table."""
        return self._rows

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame. Raises NotInstalled without pandas."""
        return pandas_of(self._rows)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame."""
        return pl.DataFrame(self._rows)

    def collect(self) -> list[Row]:
        """All rows."""
        names = self._rows.column_names
        return [Row(names, values) for values in zip(*(c.to_pylist() for c in self._rows.columns), strict=True)]

    def take(self, num: Any) -> Any:
        """The first ``num`` rows; for positions, those rows as pyarrow's Table."""
        return TableResult(self._rows.slice(0, num)).collect() if isinstance(num, int) else self._rows.take(num)

    def head(self, n: int | None = None) -> Row | list[Row] | None:
        """The first row, or with a number the first rows, as Spark has it."""
        return self.first() if n is None else self.take(n)

    def first(self) -> Row | None:
        """The first row; None without rows."""
        return next(iter(self.take(1)), None)

    def count(self) -> int:
        """The number of rows."""
        return len(self)

    def isEmpty(self) -> bool:  # noqa: N802 - the name of Spark's DataFrame
        """Returns whether there are no rows."""
        return not len(self)

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """The rows, one by one."""
        return iter(self.collect())

    toArrow, toPandas = to_arrow, to_pandas  # noqa: N815 - the names of Spark's DataFrame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        has_rows = hasattr(self._rows, name)
        if self._frame is not None and (name in SHARED_NAMES or not has_rows):
            return getattr(self._frame(), name)
        if not has_rows:
            raise AttributeError(
                f"the rows of this statement have no '{name}': they have the methods of Result and of a pyarrow Table. "
                "Methods of a DataFrame need Spark: pip install 'lakelog[spark]', or lake.sql(text, engine='spark')"
            )
        return getattr(self._rows, name)

    def __getitem__(self, key: Any) -> Any:
        return (self._rows if self._frame is None else self._frame())[key]

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __iter__(self) -> Iterator[Any]:
        """The columns, as pyarrow's Table has them."""
        return iter(self._rows.columns)

    def __eq__(self, other: object) -> bool:
        rows = other.to_arrow() if isinstance(other, TableResult) else other
        return bool(self._rows.equals(rows)) if isinstance(rows, pa.Table) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as pyarrow's Table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._text(_SHOWN, 0) if self._rows.num_columns else "no rows"

    def _repr_html_(self) -> str:
        return table_html(self._rows)

    def _text(self, n: int, width: int) -> str:
        names, rows = self._rows.column_names, [tuple(map(_shown, row)) for row in plain_rows(self._rows.slice(0, n))]
        cut = [[value if not 0 < width < len(value) else f"{value[: width - 3]}..." for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(names, *cut, strict=True)]
        line = f"+{'+'.join('-' * size for size in widths)}+"
        body = [f"|{'|'.join(v.rjust(size) for v, size in zip(row, widths, strict=True))}|" for row in (names, *cut)]
        more = [f"only the first {n} of {len(self)} rows"] if len(self) > n else []
        return "\n".join([line, body[0], line, *body[1:], line, *more])


def table_html(rows: pa.Table) -> str:
    """The first rows of an Arrow table as HTML."""
    if not rows.num_columns:
        return ""
    title = f"only the first {_SHOWN} of {rows.num_rows} rows" if rows.num_rows > _SHOWN else ""
    shown = plain_rows(rows.slice(0, _SHOWN))
    return rows_html(title, rows.column_names, (map(_shown, row) for row in shown))


def with_methods(result: Any) -> Any:
    """A result of the engine with the methods of ``Result``; a StreamingQuery is returned unchanged.

    A Spark DataFrame is returned too, with the missing methods as attributes.
    """
    if isinstance(result, TableResult):
        return result
    if result is None or isinstance(result, pa.Table):
        return TableResult(pa.table({}) if result is None else result)
    if not hasattr(type(result), "toPandas"):
        return result
    result.to_arrow, result.to_pandas = partial(arrow_of, result), result.toPandas
    if not hasattr(type(result), "toArrow"):
        result.toArrow = result.to_arrow
    result.to_polars = lambda: pl.DataFrame(arrow_of(result))
    return result


def arrow_of(frame: Any) -> pa.Table:
    """The rows of a Spark DataFrame, whose own ``toArrow`` fails for a VARIANT column with NULL."""
    rows: pa.Table = _ROWS.create("spark", frame)
    return rows


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)

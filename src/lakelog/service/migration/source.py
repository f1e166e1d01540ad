"""A table of another system as a source of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa

from lakelog.errors import CommitConflict, InvalidSchema
from lakelog.io.metrics import METER
from lakelog.lake import Lake
from lakelog.paimon.schema.schema import TableSchema

SHOWN_KEYS: Final = 3


@dataclass(frozen=True)
class KeyFaults:
    """Rows that a primary key does not allow: rows with NULL in it, keys of several rows, and some of these keys."""

    null_rows: int = 0
    duplicate_keys: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()


class Source(ABC):
    """The rows of one version of a table, which can be read several times."""

    schema: pa.Schema
    """Its columns, with those of its partitions."""
    partition_by: tuple[str, ...] = ()
    """The columns whose values are its partitions."""

    @abstractmethod
    def fit(self, definition: TableSchema) -> None:
        """Takes over the spelling of a table's columns, and its types for values that the source has as text.

        Called before the rows are read. Raises InvalidSchema if the source has a column that the table lacks.
        """

    @abstractmethod
    def count(self) -> int:
        """The number of its rows."""

    @abstractmethod
    def key_faults(self, keys: Sequence[str]) -> KeyFaults:
        """The rows that cannot be in a table with this primary key."""

    @abstractmethod
    def copy(self, lake: Lake, table: str, options: Mapping[str, str], expected: int) -> int:
        """Writes all rows into a table in one commit, with write options; returns their number.

        Raises CommitConflict, and commits nothing, if there are not ``expected`` rows.
        """


class ArrowSource(Source):
    """A source whose batches this process reads and writes, without Spark."""

    def __init__(self) -> None:
        self._spelled: dict[str, str] = {}
        self._definition: TableSchema | None = None

    def fit(self, definition: TableSchema) -> None:
        """Takes over the spelling of the table's columns."""
        self._fit_names(definition)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows, or some columns of them."""
        names = {shown: name for name, shown in self._spelled.items()}
        chosen = list(self._spelled.values()) if columns is None else list(columns)
        for batch in self._batches([names[name] for name in chosen]):
            yield batch.rename_columns(chosen)

    @abstractmethod
    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, by the source's own names."""

    def _set_schema(self, schema: pa.Schema) -> None:
        """Sets the columns, by the source's own names."""
        self.schema, self._spelled = schema, {name: name for name in schema.names}

    def _fit_names(self, definition: TableSchema) -> None:
        shown = spelled_as(self.schema.names, definition)
        names = list(self._spelled)
        self._spelled = dict(zip(names, shown, strict=True))
        self.schema = pa.schema([f.with_name(name) for f, name in zip(self.schema, shown, strict=True)])
        self._definition = definition

    def key_faults(self, keys: Sequence[str]) -> KeyFaults:
        """The faults of the key; holds the columns of the key in memory."""
        if not keys:
            return KeyFaults()
        fields = pa.schema([self.schema.field(name) for name in keys])
        rows = pl.DataFrame(pa.Table.from_batches(self.batches(keys), fields))
        null_rows = rows.filter(pl.any_horizontal(pl.all().is_null())).height
        repeated = rows.drop_nulls().filter(rows.drop_nulls().is_duplicated()).unique()
        return KeyFaults(null_rows, repeated.height, tuple(repeated.sort(*keys).head(SHOWN_KEYS).to_dicts()))

    def copy(self, lake: Lake, table: str, options: Mapping[str, str], expected: int) -> int:
        """Writes the batches; the count is checked before the commit."""
        with (
            METER.step("migrate", "rows", expected, table=table) as step,
            lake.table(table).writer(options=options, missing="null") as writer,
        ):
            for batch in self.batches():
                writer.write(batch)
                step.advance(batch.num_rows)
            check_count(step.done, expected)
        return step.done


def partitions_in(paths: Iterable[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that folders of these paths name, as in ``day=2024-01-31/part-0.parquet``."""
    folders = {folder.partition("=")[0] for path in paths for folder in path.split("/")[:-1] if "=" in folder}
    return tuple(name for name in columns if name in folders)


def spelled_as(names: Sequence[str], definition: TableSchema) -> list[str]:
    """Names of columns in the spelling of a table. Raises InvalidSchema for a column that it lacks."""
    by_fold = {name.lower(): name for name in definition.field_names}
    for name in names:
        if name.lower() not in by_fold:
            raise InvalidSchema(
                f"the table has no column '{name}' of the source: add it, or drop the table. It has: "
                f"{', '.join(definition.field_names)}"
            )
    return [by_fold[name.lower()] for name in names]


def check_count(rows: int, expected: int, remedy: str = "Repeat the command") -> None:
    """Raises CommitConflict if a copy has not read the rows that were counted before."""
    if rows != expected:
        raise CommitConflict(
            f"the copy read {rows:,} rows, and {expected:,} were counted before it: the source has changed meanwhile. "
            f"{remedy}"
        )

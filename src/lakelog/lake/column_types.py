"""Columns and their types as users write them: SQL text, Arrow, polars, pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.options.boundary import shown_value
from lakelog.paimon.types.arrow import fields_from_arrow, type_from_arrow
from lakelog.paimon.types.types import DataType
from lakelog.sql.syntax.type_parser import parse_type_text

Columns = Sequence[tuple[str, DataType, str | None]]


def columns_of(schema: Any) -> Columns:
    """(name, type, comment) of the columns of a schema of any kind. Raises InvalidSchema for anything else."""
    if isinstance(schema, pl.LazyFrame):
        schema = schema.collect_schema()
    if isinstance(schema, Mapping):
        return [(str(name), column_type(kind, str(name)), None) for name, kind in schema.items()]
    if isinstance(schema, pa.Schema):
        return fields_from_arrow(schema)
    if isinstance(getattr(schema, "schema", None), pa.Schema):  # an Arrow table, batch, reader or data set
        return fields_from_arrow(schema.schema)
    if hasattr(schema, "__arrow_c_schema__"):
        return fields_from_arrow(pa.schema(schema))
    if hasattr(schema, "__arrow_c_stream__"):
        return fields_from_arrow(pa.RecordBatchReader.from_stream(schema).schema)
    raise InvalidSchema(
        f"{type(schema).__name__} is not a schema: give an Arrow schema, a DataFrame, or a map such as "
        f"{{'id': 'bigint', 'name': 'string'}}"
    )


def column_type(kind: Any, name: str) -> DataType:
    """The type of a column as SQL text, an Arrow or a polars type. Raises InvalidSchema naming the column."""
    if isinstance(kind, str):
        return parse_type_text(kind)
    if isinstance(kind, pa.DataType):
        return type_from_arrow(kind)
    try:
        return type_from_arrow(pl.DataFrame(schema={name: kind}).to_arrow().schema.field(0).type)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as why:
        raise InvalidSchema(
            f"column '{name}': {shown_value(kind)} is not a type; write SQL text such as 'bigint', an Arrow or a "
            "polars type"
        ) from why

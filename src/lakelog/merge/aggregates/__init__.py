"""The aggregate functions, one file per kind, independent of each other (format sheet 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.errors import UnsupportedFeature
from lakelog.merge.aggregate import Aggregate
from lakelog.options.registry import Registry
from lakelog.paimon.types.types import DataField

_PACKAGE: Final = "lakelog.merge.aggregates"

AGGREGATES: Final[Registry[Aggregate]] = Registry(
    "aggregate function",
    {
        "sum": f"{_PACKAGE}.sum:Sum",
        "product": f"{_PACKAGE}.product:Product",
        "max": f"{_PACKAGE}.extreme:Max",
        "min": f"{_PACKAGE}.extreme:Min",
        "last_value": f"{_PACKAGE}.first_last:LastValue",
        "last_non_null_value": f"{_PACKAGE}.first_last:LastNonNullValue",
        "first_value": f"{_PACKAGE}.first_last:FirstValue",
        "first_non_null_value": f"{_PACKAGE}.first_last:FirstNonNullValue",
        "first_not_null_value": f"{_PACKAGE}.first_last:FirstNonNullValue",
        "listagg": f"{_PACKAGE}.listagg:ListAgg",
        "bool_and": f"{_PACKAGE}.bools:BoolAnd",
        "bool_or": f"{_PACKAGE}.bools:BoolOr",
        "collect": f"{_PACKAGE}.collect:Collect",
        "merge_map": f"{_PACKAGE}.merge_map:MergeMap",
        "nested_update": f"{_PACKAGE}.nested_update:NestedUpdate",
        "primary-key": f"{_PACKAGE}.primary_key:PrimaryKey",
    },
)
"""Aggregate functions by the value of option ``fields.<column>.aggregate-function``."""

_OF_THE_FORMAT: Final = (
    "theta_sketch",
    "hll_sketch",
    "rbm32",
    "rbm64",
    "merge_map_with_keytime",
    "nested_partial_update",
)


def make_aggregate(name: str, field: DataField, options: Mapping[str, str]) -> Aggregate:
    """The aggregate function of a column.

    Called by merge engines. Raises UnsupportedFeature for a function of the format that lakelog does not have,
    InvalidRequest for an unknown one, InvalidOption for a column type that it does not accept.
    """
    if name in _OF_THE_FORMAT:
        raise UnsupportedFeature(
            f"aggregate function '{name}' of column '{field.name}' is not supported: leave the column out, or read "
            f"this table with another engine"
        )
    return AGGREGATES.create(name, name, field, options)

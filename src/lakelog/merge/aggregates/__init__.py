"""The aggregate functions, one class each (format sheet 8)."""

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
        "sum": f"{_PACKAGE}.arithmetic:Sum",
        "product": f"{_PACKAGE}.arithmetic:Product",
        "max": f"{_PACKAGE}.selection:Max",
        "min": f"{_PACKAGE}.selection:Min",
        "last_value": f"{_PACKAGE}.selection:LastValue",
        "last_non_null_value": f"{_PACKAGE}.selection:LastNonNullValue",
        "first_value": f"{_PACKAGE}.selection:FirstValue",
        "first_non_null_value": f"{_PACKAGE}.selection:FirstNonNullValue",
        "first_not_null_value": f"{_PACKAGE}.selection:FirstNonNullValue",
        "listagg": f"{_PACKAGE}.collections:ListAgg",
        "bool_and": f"{_PACKAGE}.selection:BoolAnd",
        "bool_or": f"{_PACKAGE}.selection:BoolOr",
        "collect": f"{_PACKAGE}.collections:Collect",
        "merge_map": f"{_PACKAGE}.collections:MergeMap",
        "nested_update": f"{_PACKAGE}.collections:NestedUpdate",
        "primary-key": f"{_PACKAGE}.selection:PrimaryKey",
    },
)
"""Aggregate functions by the value of option ``fields.<column>.aggregate-function``."""

_OF_THE_FORMAT: Final = (
    "theta_sketch", "hll_sketch", "rbm32", "rbm64", "merge_map_with_keytime", "nested_partial_update",
)  # fmt: skip


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

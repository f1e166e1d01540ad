"""Constraints that ALTER TABLE adds: the rows that the table has already, and the feature that writers must know."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakelog.catalog.base import TableLocation
from lakelog.errors import ConstraintViolation
from lakelog.options.constraints import constraints_of, has_constraints
from lakelog.options.features import CHECKS, FEATURES_KEY, TableFeatures
from lakelog.paimon.schema.changes import RemoveOption, SchemaChange, SetOption
from lakelog.table.model.constraints import SHOWN, rows_text, violated
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan


def features_after(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """The features of a table whose options become ``after``; None for none."""
    features = TableFeatures.of(before)
    features = features.with_feature(CHECKS) if has_constraints(after) else features.without_feature(CHECKS)
    return features.to_text() or None


def changed_features(before: Mapping[str, str], after: Mapping[str, str]) -> list[SchemaChange]:
    """The change of the features of a table whose options become ``after``."""
    text = features_after(before, after)
    if text == before.get(FEATURES_KEY):
        return []
    return [RemoveOption(FEATURES_KEY) if text is None else SetOption(FEATURES_KEY, text)]


def check_existing_rows(location: TableLocation, options: Mapping[str, str]) -> None:
    """Checks the rows of a table, of both stores, against constraints that ``options`` add or change.

    Raises ConstraintViolation with the number of rows and some of them, InvalidSchema, InvalidRequest.
    """
    schema = location.schema
    old = {constraint.name: constraint for constraint in constraints_of(schema.options)}
    for constraint in constraints_of(options):
        former = old.get(constraint.name)
        is_known = former is not None and former.condition == constraint.condition and former.is_valid
        if is_known or not constraint.is_valid:
            continue
        table = DynamicTable(location).all_rows
        count, examples = 0, list[pa.RecordBatch]()
        for batch in Scan(table, filter=violated(constraint, schema)).to_batches():
            count += batch.num_rows
            if sum(part.num_rows for part in examples) < SHOWN:
                examples.append(batch.slice(0, SHOWN))
        if count:
            raise ConstraintViolation(
                f"{count:,} rows of table {table.name} violate constraint '{constraint.name}': CHECK "
                f"({constraint.condition}). {rows_text(pa.Table.from_batches(examples))}. Correct them, or add the "
                "constraint for new rows only: … NOT VALID"
            )

"""What a merge gives: columns, deleted keys, and runs whose place says how old they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.merge import merge_engine
from lakelog.merge.output import Output, in_age_order
from lakelog.merge.runs import merge_runs
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

COLUMNS = [("k", parse_type("BIGINT NOT NULL"), None), ("v", parse_type("BIGINT"), None)]


def run_of(*rows: tuple[int, int, int], numbered: bool = True) -> list[pa.RecordBatch]:
    """A run of rows (key, value, kind), whose values are their sequence numbers."""
    keys, values, kinds = zip(*rows, strict=True)
    columns: dict[str, Any] = {"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())}
    if numbered:
        columns["_SEQUENCE_NUMBER"] = columns["v"]
    return pa.table({**columns, "_VALUE_KIND": pa.array(kinds, pa.int8())}).to_batches()


def merged(engine: str, output: Output, *runs: list[pa.RecordBatch], **options: str) -> list[tuple[Any, ...]]:
    given = {"merge-engine": engine, **{k.replace("_", "-"): v for k, v in options.items()}}
    made = merge_engine(engine, new_schema(COLUMNS, ["k"], options=given))
    return [tuple(row.values()) for b in merge_runs(runs, ["k"], made, output) for row in b.to_pylist()]


OLD, NEW = run_of((1, 10, 0), (2, 11, 0), (3, 12, 0)), run_of((2, 20, 3), (3, 21, 2), (4, 22, 0))


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_deleted_keys_are_given_only_if_asked_for(engine: str) -> None:
    options = {"aggregation.remove-record-on-delete": "true"} if engine == "aggregation" else {}
    assert merged(engine, Output(("v", "k"), with_deletes=False), OLD, NEW, **options) == [(10, 1), (21, 3), (22, 4)]
    told = merged(engine, Output(("k", "_VALUE_KIND")), OLD, NEW, **options)
    assert [(k, kind == 3) for k, kind in told] == [(1, False), (2, True), (3, False), (4, False)]


def test_all_columns_come_unless_some_are_named() -> None:
    assert merged("deduplicate", Output(), OLD)[0] == (1, 10, 10, 0)
    assert merged("first-row", Output(("v",)), OLD, run_of((3, 30, 0), (5, 31, 0))) == [(10,), (11,), (12,), (31,)]


def test_in_runs_without_numbers_the_later_run_is_newer() -> None:
    old, new = run_of((1, 50, 0), (2, 51, 0), numbered=False), run_of((1, 7, 0), numbered=False)
    assert merged("deduplicate", Output(("k", "v")), old, new) == [(1, 7), (2, 51)]
    assert merged("first-row", Output(("k", "v")), old, new) == [(1, 50), (2, 51)]


def test_runs_are_in_age_order_when_no_numbers_are_shared_and_all_grow() -> None:
    assert in_age_order([(0, 9), (10, 10), (11, 40)])
    assert in_age_order([(5, 7)])
    assert in_age_order([])
    assert not in_age_order([(0, 9), (9, 12)])
    assert not in_age_order([(10, 19), (0, 9)])


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_rows_without_columns_are_counted(engine: str) -> None:
    options = {"aggregation.remove-record-on-delete": "true"} if engine == "aggregation" else {}
    assert merged(engine, Output((), with_deletes=False), OLD, NEW, **options) == [(), (), ()]

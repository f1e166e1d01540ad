"""What other systems' Spark SQL suites ask (``tests/suites``): each case is right, on tables with and without a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from depth import Depth
from lakelog import Lake
from lakelog.catalog.base import Catalog, Identifier, TableLocation
from lakelog.paimon.schema.schema import TableSchema
from lakelog.spark.compat.arrow import collected
from lakelog.spark.runtime.types import arrow_for_spark
from lakelog.spark.write.batch_writer import LakelogWriter
from lakelog.table import create
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts
from suite_cases import RIGHT, read_cases, verdict

CASES = read_cases()
LOG = {"log-store.enabled": "true", "log.content": "changes"}


def _write_here(frame: DataFrame, table: DynamicTable, overwrite: bool = False) -> RowCounts:
    """Writes a frame as ``write_frame`` does, but from the driver: Python workers take most of a small write's time."""
    writer = LakelogWriter(table, arrow_for_spark(frame.schema), overwrite)
    messages: list[Any] = [None]
    try:
        messages = [writer.write(iter(collected(frame).to_batches()))]
        writer.commit(messages, no_other_tries=True)
    except BaseException:
        writer.take_back(messages)
        raise
    return writer.counts


def _with_log(made: Callable[..., TableLocation]) -> Callable[..., TableLocation]:
    """CREATE TABLE that gives each table a log."""

    def create_table(catalog: Catalog, name: Identifier, schema: TableSchema, if_not_exists: bool = False) -> Any:
        return made(catalog, name, replace(schema, options={**LOG, **schema.options}), if_not_exists)

    return create_table


@pytest.mark.local_only
@pytest.mark.timeout(900)
@pytest.mark.parametrize("log", ["without a log", "with a log"])
@pytest.mark.parametrize("suite", sorted({case.suite for case in CASES}))
def test_every_case_has_the_rows_that_its_suite_expects(
    lake: Lake, suite: str, log: str, monkeypatch: pytest.MonkeyPatch, depth: Depth
) -> None:
    monkeypatch.setattr("lakelog.spark.engine.engine.write_frame", _write_here)
    if log == "with a log":
        monkeypatch.setattr("lakelog.sql.runtime.tables.create_table", _with_log(create.create_table))
    found = {}
    every = 1 if depth.name == "night" else 5  # all of them take ten minutes
    for number, case in enumerate([case for case in CASES if case.suite == suite][::every]):
        lake.sql(f"create database d{number}; use d{number}")
        answer, told = verdict(case, lake.sql)
        fault = case.known_fault(log == "with a log")
        if (answer != RIGHT) if fault is None else (answer == RIGHT or fault not in told):
            found[case.title] = f"{answer}: {told}"
        for setting in case.settings:
            lake.sql(f"reset {setting}")
    assert found == {}

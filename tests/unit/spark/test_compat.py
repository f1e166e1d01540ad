"""What lakelog does by other means where a Spark lacks a part: the same as with it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.paimon.rows.murmur import murmur_one
from lakelog.spark.compat.natives import RELEASE, Native
from lakelog.spark.compat.partition_ids import numbers_of_tasks
from lakelog.spark.compat.sources import WholeReader
from lakelog.spark.read.log_stream_reader import LakelogStreamReader
from lakelog.spark.read.normalized_reader import NormalizedStreamReader
from lakelog.spark.runtime.types import spark_schema
from lakelog.spark.session.data_source import without_limit
from lakelog.table.log.scan import LogScan
from log_tables import make, rows


def test_a_part_is_native_from_its_first_release_on() -> None:
    major, minor = RELEASE
    assert Native((major, minor), "")
    assert not Native((major, minor + 1), "")
    assert not Native((major + 1, 0), "")


@pytest.mark.parametrize("tasks", [1, 2, 7, 64])
def test_the_hash_of_the_number_of_a_task_is_that_task(tasks: int) -> None:
    numbers = numbers_of_tasks(tasks)
    assert [murmur_one(number.to_bytes(4, "little")) % tasks for number in numbers] == list(range(tasks))


def whole(table: Table, kind: type[LakelogStreamReader], **options: str) -> WholeReader:
    hints = {"read.mode": "log", "scan.startup.mode": "latest-full", **options}
    hinted = without_limit(table.logical.with_hints(hints))
    return WholeReader(kind(hinted, spark_schema(LogScan(hinted).schema)))


def taken(reader: WholeReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    """The rows of a micro-batch, whose ends come from a checkpoint."""
    start, end = json.loads(json.dumps([start, end]))
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    held = reader.getCache(start, end)
    batches = [batch for part in parts for batch in reader.read(part)] if held is None else list(held)
    return sorted((row["_row_kind"], row["id"]) for batch in batches for row in batch.to_pylist())


KINDS = [(LakelogStreamReader, {}), (NormalizedStreamReader, {"log.consumer.normalize": "true"})]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=["records", "whole changes"])
def test_one_micro_batch_has_the_snapshot_and_all_of_the_log(tmp_path, kind, options) -> None:
    """A query that reads what is available makes only one on a Spark without limits."""
    table = make(tmp_path)
    table.write(rows(*range(20)))
    reader = whole(table, kind, **options)
    start = reader.initialOffset()
    with table.writer() as writer:
        writer.write(rows(3, 20, name="b"))
        writer.commit()
        end = reader.latestOffset()
        first = taken(reader, start, end)
        assert {number for _, number in first} == set(range(21))
        of_three = [kind for kind, number in first if number == 3]
        assert of_three == (["+I", "+U", "-U"] if options else ["+I", "+I"])
        assert reader.latestOffset() == end, "nothing is new"
        writer.write(rows(21))
        writer.commit()
        assert taken(reader, end, reader.latestOffset()) == [("+I", 21)]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=["records", "whole changes"])
def test_a_restart_repeats_the_last_micro_batch_and_goes_on(tmp_path, kind, options) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2))
    reader = whole(table, kind, **options)
    start = reader.initialOffset()
    table.write(rows(2, 3, name="b"))
    end = reader.latestOffset()
    first = taken(reader, start, end)
    reader.stop()
    table.write(rows(4))
    again = whole(table, kind, **options)
    again.partitions(end, end)  # so Spark names the last position
    assert taken(again, start, end) == first
    assert taken(again, end, again.latestOffset()) == [("+I", 4)]
    again.stop()


def test_a_limit_is_refused_where_spark_sets_none(tmp_path) -> None:
    table = make(tmp_path)
    with pytest.raises(UnsupportedFeature, match=r"'read.max-rows-per-trigger' of table db.t needs Spark 4.2"):
        without_limit(table.logical.with_hints({"read.max-rows-per-trigger": "5"}))

"""lakelog's errors in the words of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import CommitConflict, InvalidRequest
from lakelog.spark.write.remote_write import conflict_in
from lakelog.spark.write.stream_writer import LakelogStreamWriter


def test_a_conflict_is_found_and_nothing_else() -> None:
    text = """[PYTHON_DATA_SOURCE_ERROR] Failed to commit: Traceback (most recent call last):
  File "x.py", line 1, in commit
lakelog.errors.CommitConflict: data file 'f' was replaced by another commit; take the newest snapshot

JVM stacktrace: org.apache.spark.SparkException"""
    found = conflict_in(RuntimeError(text))
    assert isinstance(found, CommitConflict)
    assert str(found) == "data file 'f' was replaced by another commit; take the newest snapshot"
    assert conflict_in(RuntimeError("lakelog.errors.InvalidSchema: CommitConflict")) is None


def test_an_output_mode_that_spark_does_not_pass_on_is_not_advised(tmp_path: Path) -> None:
    table = lakelog.connect(tmp_path).create_table("db.t", {"id": "bigint"}).logical
    with pytest.raises(InvalidRequest, match=r"lake\.write_stream\(frame, 'db\.t'\) writes the changed rows"):
        LakelogStreamWriter(table, pa.schema([("id", pa.int64())]), overwrite=True)

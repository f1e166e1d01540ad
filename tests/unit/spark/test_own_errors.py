"""lakelog's errors in the words of Spark."""

from __future__ import annotations

from lakelog.errors import CommitConflict
from lakelog.spark.engine.input_frames import lakelog_error_in


def test_a_conflict_is_found_and_nothing_else() -> None:
    told = """[PYTHON_DATA_SOURCE_ERROR] Failed to commit: Traceback (most recent call last):
  File "x.py", line 1, in commit
lakelog.errors.CommitConflict: data file 'f' was replaced by another commit; take the newest snapshot

JVM stacktrace: org.apache.spark.SparkException"""
    found = lakelog_error_in(RuntimeError(told))
    assert isinstance(found, CommitConflict)
    assert str(found) == "data file 'f' was replaced by another commit; take the newest snapshot"
    assert lakelog_error_in(RuntimeError("lakelog.errors.InvalidSchema: CommitConflict")) is None

"""lakelog's errors in the words of Spark."""

from __future__ import annotations

from lakelog.errors import CommitConflict
from lakelog.spark.write.remote_write import conflict_in


def test_a_conflict_is_found_and_nothing_else() -> None:
    text = """[PYTHON_DATA_SOURCE_ERROR] Failed to commit: Traceback (most recent call last):
  File "x.py", line 1, in commit
lakelog.errors.CommitConflict: data file 'f' was replaced by another commit; take the newest snapshot

JVM stacktrace: org.apache.spark.SparkException"""
    found = conflict_in(RuntimeError(text))
    assert isinstance(found, CommitConflict)
    assert str(found) == "data file 'f' was replaced by another commit; take the newest snapshot"
    assert conflict_in(RuntimeError("lakelog.errors.InvalidSchema: CommitConflict")) is None

"""What a child with a Spark of its own gets to know of its parent's."""

from __future__ import annotations

import pytest

from lakelog.service.child_process import environment_of_own_spark


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE"])
def test_a_session_on_connect_is_not_handed_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "connect")
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    found = environment_of_own_spark()
    assert name not in found
    assert found["SPARK_HOME"] == "/opt/spark"

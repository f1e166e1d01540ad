"""One Spark session for all tests that need Spark; a warehouse of its own for each.

The session is of the kind that ``LAKELOG_SPARK`` names (``servers.spark_session``): local, connect, cluster,
local-cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from servers.spark_session import KIND, spark_session


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests of a driver in this process (``local_only``) out of a run on Connect, whose driver is the server."""
    others = [item for item in items if KIND == "connect" and item.get_closest_marker("local_only") is not None]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def lake(spark: SparkSession, tmp_path) -> Iterator[Lake]:
    with connect(spark, warehouse=str(tmp_path / "warehouse")) as opened:
        yield opened
        for query in spark.streams.active:
            query.stop()

"""One Spark session for all tests that need Spark; a warehouse of its own for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from lakelog.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session(settings={"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path) -> Iterator[Lake]:
    with connect(spark, warehouse=str(tmp_path / "warehouse")) as opened:
        yield opened
        for query in spark.streams.active:
            query.stop()

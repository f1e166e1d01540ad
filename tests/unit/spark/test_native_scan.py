"""Which paths Spark reads; what a native scan changes of the session is put back, whoever else makes one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from types import SimpleNamespace

import pytest

from lakelog.spark.native.native_scan import _listing_on_driver, spark_can_list


class Settings(dict[str, str]):
    """The settings of a session; another thread may go on whenever one of them is set."""

    def set(self, key: str, value: str) -> None:
        self[key] = value
        sleep(0)

    def unset(self, key: str) -> None:
        self.pop(key, None)


@pytest.mark.parametrize("given", [{}, {"spark.sql.sources.parallelPartitionDiscovery.threshold": "32"}], ids=str)
def test_scans_made_at_once_leave_the_settings_as_they_were(given) -> None:
    spark, start = SimpleNamespace(conf=Settings(given)), Barrier(4)

    def scan(_: int) -> list[str]:
        start.wait(120)
        found = []
        for _ in range(500):
            with _listing_on_driver(spark):
                found.extend(spark.conf.values())
        return found

    with ThreadPoolExecutor(4) as threads:
        assert {value for found in threads.map(scan, range(4)) for value in found} == {"10000"}
    assert spark.conf == given


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/w/db.db/t/p=a b%3A#ä/bucket-0/data-1.parquet", True),
        ("hdfs://name/w/t/bucket-0/data-1.parquet", True),
        ("s3://w/t/bucket-0/data-1.parquet", False),
        *((f"/w/t/p=a{sign}/bucket-0/data-1.parquet", False) for sign in "{}[]*?\\"),
    ],
)
def test_paths_that_spark_takes_for_patterns_are_not_given_to_it(path, found) -> None:
    assert spark_can_list(path) is found

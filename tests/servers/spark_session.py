"""The Spark session on which the Spark tests run: ``LAKELOG_SPARK`` says on which kind of Spark."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from lakelog.spark.session.session import local_session, session_place, session_settings
from servers.spark_cluster import SparkCluster
from servers.spark_connect import SparkConnectServer
from servers.spark_home import job_environment

KINDS: Final = ("local", "connect", "cluster", "local-cluster")
KIND: Final = os.environ.get("LAKELOG_SPARK", "local")
"""``local``: this process · ``connect``: a Spark Connect server, no JVM here · ``cluster``: a standalone master and two
workers · ``local-cluster``: Spark's own small cluster."""
LOCAL_CLUSTER: Final = "local-cluster[2,1,1024]"
_ZONE: Final = {"spark.sql.session.timeZone": "UTC"}


@contextlib.contextmanager
def spark_session(directory: Path, kind: str = KIND) -> Iterator[SparkSession]:
    """A session of one kind, and the servers that it needs, until the block ends."""
    if kind not in KINDS:
        raise ValueError(f"LAKELOG_SPARK = '{kind}': give one of {', '.join(KINDS)}")
    if kind == "connect":
        with SparkConnectServer(directory, {**session_settings(), **session_place("local[2]"), **_ZONE}) as server:
            yield from _until_stopped(SparkSession.builder.remote(server.url).getOrCreate())
        return
    if kind != "local":  # executors inherit it, or their workers do not find lakelog
        os.environ["PYTHONPATH"] = job_environment()["PYTHONPATH"]
    if kind == "cluster":
        with SparkCluster(directory) as cluster:
            yield from _until_stopped(local_session(settings={**_ZONE, "spark.master": cluster.url}))
        return
    chosen = {"spark.master": LOCAL_CLUSTER} if kind == "local-cluster" else {}
    yield from _until_stopped(local_session(settings={**_ZONE, **chosen}))


def _until_stopped(session: SparkSession) -> Iterator[SparkSession]:
    try:
        yield session
    finally:
        session.stop()

"""A Spark session configured for streams (RFC 4), and the registration of the data source on any session."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakelog.errors import InvalidOption, NotInstalled, Unavailable
from lakelog.io.shared_counts import counts_directory
from lakelog.options.option import Options
from lakelog.options.parts import LOCKS
from lakelog.options.storage import NO_LOCK, STORAGE_LOCK, STORAGE_OPTIONS
from lakelog.spark.compat.kinds import CHECKPOINT_MANAGER, sessions_class
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.realtime.kafka_connector import JARS_VARIABLE, PACKAGES, connector_settings
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.spark.session.jvm import check_java, start_jvm
from lakelog.spark.session.refused_format import refuse_format
from lakelog.table.catalog_config import CatalogConfig
from lakelog.table.read.time_travel import SESSION_ZONE

_UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
STREAM_SETTINGS: Mapping[str, str] = {
    # otherwise a delayed TCP acknowledgement costs every Python task 40 ms
    _UNIX_SOCKETS: "true",
    # the default manager forks a process per file on a local disk: 30 ms per micro-batch
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    # fewer, larger batches: per-batch work, and a record of an arrow log, cover more rows
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}
"""Settings of a local session; each is justified by measurement (see the design page on latency)."""
_LOOPBACK: Final = re.compile(r"(?:127(?:\.\d+){3}|localhost|\[::1\])(?::\d+)?")
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable of a program that ``spark-submit`` runs."""
_WHY: Final[Mapping[str, str]] = {
    _UNIX_SOCKETS: "each Python task pays about 40 ms for a delayed TCP acknowledgement",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "on a local disk each checkpoint file starts processes, about 30 ms a micro-batch"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "twice as many checkpoint files a micro-batch",
    "spark.sql.execution.pyspark.binaryAsBytes": "binary columns are bytearray values, which cannot be a key",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "more and smaller batches: bulk reads and writes are slower",
    "spark.sql.execution.arrow.maxBytesPerBatch": "batches of wide rows may need much memory in Python workers",
}
"""The purpose of each setting in ``STREAM_SETTINGS``."""


def session_settings() -> dict[str, str]:
    """All settings of a new session here except its place, so also suitable for a session on a cluster."""
    return {
        **STREAM_SETTINGS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


def local_session(app_name: str = "lakelog", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts (or reuses) a session configured for streams: on this machine, unless the settings name another master.

    In a job of ``spark-submit`` it is the session that was submitted. Raises NotInstalled with the install command if
    there is no Java.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder
    options = settings or {}
    own = {"spark.app.name": app_name, **session_settings(), **session_place(options.get("spark.master")), **options}
    start_jvm(own)
    for key, value in own.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def session_place(master: str | None) -> dict[str, str]:
    """The settings of a new session that depend on where it runs; ``master`` is None if nothing names it.

    The driver of a session whose executors are here listens on loopback only. A driver of other machines' executors
    must not, or they never reach it.
    """
    if master is None and _SUBMITTED in os.environ:
        return _sockets(_submitted_master())
    chosen = master or f"local[{_cores()}]"
    if is_spread_master(chosen):
        return {"spark.master": chosen, **_sockets(chosen)}
    return {
        "spark.master": chosen,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(_cores()),
    }


def _submitted_master() -> str:
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master", "") or ""


def _sockets(master: str) -> dict[str, str]:
    """On YARN no Unix sockets: in the directory of a container, their paths are longer than the system allows."""
    return {_UNIX_SOCKETS: "false"} if master.startswith("yarn") else {}


def session_at(master: str | None = None, remote: str | None = None, app_name: str = "lakelog") -> SparkSession:
    """A session on a cluster (``spark://…``) or on a Spark Connect server (``sc://…``), for a command.

    Raises Spark's error if it cannot be reached, NotInstalled without the client of Spark Connect.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if remote is None:
        own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
        builder = builder.master(master or f"local[{_cores()}]")
        check_java()
        for key, value in {**STREAM_SETTINGS, **own, **_sockets(master or "")}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    try:
        return builder.remote(remote).getOrCreate()
    except ImportError as missing:
        raise NotInstalled("Spark Connect needs: pip install 'lakelog[connect]'") from missing


def any_session(settings: Mapping[str, str], with_connector: bool) -> SparkSession:
    """Starts a local session, with Spark's Kafka connector if it is available or requested.

    Raises InvalidOption for a directory without the connector's jars, Unavailable if Spark cannot start with it.
    """
    connector = connector_settings(settings, with_connector)
    try:
        return local_session(settings={**settings, **connector})
    except PySparkRuntimeError as failed:
        if PACKAGES not in connector:
            raise
        raise Unavailable(
            f"Spark did not start. A likely cause is that its resolver cannot download {connector[PACKAGES]} (see the "
            "output above). Put the connector's jars into a directory, and name it in the environment variable "
            f"{JARS_VARIABLE}"
        ) from failed


def register(spark: SparkSession, catalogs: Mapping[str, CatalogConfig], first: str) -> type[LakelogDataSource]:
    """Registers ``format("lakelog")`` with a session, and the catalogs that resolve ``db.table``.

    ``first`` is the name of the catalog ``FIRST`` of identifiers. Called again for each new catalog. Storage options
    are sent inside the data source: no plan and no option of a DataFrame shows them. The registry of table names is not
    sent, because tables are found by their directories, unless a server commits to them. Works on classic sessions and
    on Spark Connect (lakelog must be installed on the server). Returns the registered class.
    Raises InvalidOption for a lock of one machine if the executors may be on others.
    """
    check_locks(spark, catalogs)
    _take_own_python(spark)
    if not DATA_SOURCES:
        refuse_format()
    configs = {name: config.of_tables() for name, config in catalogs.items()}
    members = {"catalogs": configs, "first": first, "counts": counts_directory(), "__module__": "__main__"}
    members["zone"] = spark.conf.get(SESSION_ZONE) or ""
    # a class made here is pickled by value, so that the workers see the catalogs
    named = type("LakelogDataSource", (LakelogDataSource,), members)
    if DATA_SOURCES:
        with _active(spark):
            spark.dataSource.register(named)
    return named


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Makes a classic session the active one of this thread.

    Spark checks the name of a new source in the active session: it would refuse the name in every further session.
    """
    if is_remote():
        yield
        return
    sessions = sessions_class(spark)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _take_own_python(spark: SparkSession) -> None:
    """Makes a local session's workers run this Python, unless another one is configured.

    By default they run the first ``python3`` of the PATH. If an environment's Python was started without activating it,
    that one has no lakelog, and every write fails.
    """
    named = os.environ.get("PYSPARK_PYTHON")
    if not named and not is_remote() and (spark.conf.get("spark.master", "") or "").startswith("local"):
        spark.sparkContext.pythonExec = sys.executable


def check_locks(spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
    """Raises InvalidOption if a storage is locked by files of one machine, and the executors may be on others."""
    if not is_spread(spark):
        return
    for name, config in catalogs.items():
        kind = Options(STORAGE_OPTIONS.canonical(config.storage, "lake")).need(STORAGE_LOCK)
        if kind != NO_LOCK and LOCKS.load(kind).is_local:
            raise InvalidOption(
                f"'{STORAGE_LOCK.key}' = '{kind}' of catalog '{name}' locks files of one machine, and executors of "
                f"'{spark.conf.get('spark.master', '')}' run on others: set it to 'sql', with a database that all reach"
            )


def is_spread(spark: SparkSession) -> bool:
    """True if the session's executors may be on other machines than its driver."""
    return is_spread_master(spark.conf.get("spark.master", "") or "")


def is_spread_master(master: str) -> bool:
    """True if executors of this master may be on other machines than the driver.

    They are not if it is local, or if all masters of its cluster are on loopback, which no other machine reaches.
    """
    scheme, _, hosts = master.partition("://")
    return not scheme.startswith("local") and not (
        scheme == "spark" and all(_LOOPBACK.fullmatch(host) for host in hosts.split(","))
    )


def _cores() -> int:
    return os.cpu_count() or 2


@dataclass(frozen=True)
class SessionGap:
    """A setting that differs from lakelog's own sessions: its key, expected and actual value, and cost."""

    key: str
    wanted: str
    found: str | None
    why: str


def session_gaps(spark: SparkSession) -> list[SessionGap]:
    """The gaps of a session, classic or Connect. None of them affects correctness."""
    gaps = []
    for key, wanted in STREAM_SETTINGS.items():
        found = spark.conf.get(key, None)
        if found != wanted:
            gaps.append(SessionGap(key, wanted, found, _WHY[key]))
    return gaps

"""What holds for all tests: markers by folder, repeatable property tests, and no silent skips."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import hypothesis
import pytest

from depth import DEPTH, Depth
from lakelog import Lake, connect
from lakelog.logstore.clients import close_clients
from lakelog.service.servers.server_process import QUICK_START, KafkaBroker, ServerProcess
from lane_report import LaneReport, Measure
from lanes import COLLECTED
from sampling import Sampling, add_options
from servers.shared import SharedServer, jvm_starts
from smoke import LONG, SMOKE
from spark_results import SparkResults

if TYPE_CHECKING:
    from servers.hdfs_cluster import HdfsCluster
    from servers.postgres_server import PostgresServer
    from servers.pulsar_server import PulsarServer
    from servers.rest_catalog import RestServers
    from servers.s3_server import S3Server

S = TypeVar("S", bound=ServerProcess)

_MARKERS = {"spark": "spark", "docs": "spark", "integration": "kafka", "browser": "browser", "hosts": "hosts"}
_MANY_DESCRIPTORS = 300
_OTHER = "pulsar"
"""The files of tests/integration with this word in their name have this marker, and tests that say it themselves."""


def _java_options() -> str:
    """A test's JVMs live for seconds: the optimising compiler takes more of the cores than it gives back, and Spark's
    find most of their classes in an archive (scripts/class_archive.py), whose complaints about other jars go nowhere.
    """
    archive = Path(sys.prefix) / "spark-classes.jsa"
    log = f'-Xlog:safepoint=error:file="{jvm_starts()}/%p"'  # an empty file for each JVM that this process starts
    if not archive.exists() or not archive.stat().st_size:
        return f"{QUICK_START} {log}"
    return f'{QUICK_START} -XX:SharedArchiveFile="{archive}" -Xlog:disable -Xlog:all=error:stderr {log}'


# Set for all of them at once, servers and jobs in processes of their own too.
os.environ["JAVA_TOOL_OPTIONS"] = _java_options()


@pytest.fixture(autouse=True)
def few_descriptors() -> Iterator[None]:
    """Closes the clients of earlier tables: PySpark's callbacks hang once a descriptor is beyond 1,023 (``select``)."""
    yield
    if len(os.listdir("/proc/self/fd")) > _MANY_DESCRIPTORS:
        close_clients()


@pytest.fixture(scope="session", autouse=True)
def _no_disk_flush() -> Iterator[None]:
    """Files of tests end with them: no test waits for the disk. A process that is killed loses nothing by it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield


hypothesis.settings.register_profile(
    "lakelog",
    deadline=None,
    database=None,
    max_examples=DEPTH.cases(hypothesis.settings.default.max_examples),
    print_blob=True,
)
hypothesis.settings.load_profile("lakelog")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measure(), "measure")
    config.pluginmanager.register(Sampling(config.getoption("cases"), config.getoption("files")), "sampling")
    hypothesis.core.global_force_seed = DEPTH.seed
    if not hasattr(config, "workerinput"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends the run, and with it its servers
        config.pluginmanager.register(LaneReport(), "lane-report")
    config.pluginmanager.register(SparkResults(), "spark-results")


def pytest_report_header() -> str:
    """What repeats the draws of this run."""
    return f"drawn with {DEPTH}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives every test of a folder that needs something heavy the marker of that folder."""
    here = Path(__file__).parent
    config.stash[COLLECTED] = list(items)
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if not LONG.isdisjoint(
            f"{item.path.parent.name}/{item.path.name}::{name}"
            for name in (item.name, getattr(item, "originalname", item.name))
        ):
            item.add_marker("slow")
        if folder in _MARKERS:
            is_other = folder == "integration" and (
                _OTHER in item.path.name or item.get_closest_marker(_OTHER) is not None
            )
            item.add_marker(_OTHER if is_other else _MARKERS[folder])
        function = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if folder == "spark" and not SMOKE.isdisjoint({function, f"{item.path.name}::{item.name}"}):
            item.add_marker("smoke")
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)) or "depth" in getattr(item, "fixturenames", ()):
            item.add_marker("deep")
            if DEPTH.is_exhaustive:
                item.add_marker(pytest.mark.timeout(0), append=False)


@pytest.fixture(scope="session")
def depth() -> Depth:
    """How many cases a test tries that draws them itself."""
    return DEPTH


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A skipped test is a failure where everything has to run (LAKELOG_NO_SKIPS=1, as in .ci/run)."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and os.environ.get("LAKELOG_NO_SKIPS") == "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake in ``warehouse`` of the test's directory."""
    with connect(warehouse=str(tmp_path / "warehouse")) as opened:
        yield opened


@pytest.fixture(scope="module")
def new_parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Merge engines and a log system of another package (``tests/other_package``)."""
    from new_parts import installed

    with installed(tmp_path_factory.mktemp("site")):
        yield


_SHARED: dict[str, SharedServer[Any]] = {}
"""The servers of the run that this process uses."""


def _shared(name: str, make: Callable[[Path], S], address: Callable[[S], str]) -> S:
    server: SharedServer[S] = _SHARED.setdefault(name, SharedServer(name, make, address))
    return server.get()


@pytest.fixture(autouse=True)
def _running_servers() -> None:
    """A server of the run that has died is started again; the end of the run names it."""
    for server in _SHARED.values():
        server.revive()


@pytest.fixture(scope="session")
def kafka() -> KafkaBroker:
    """One broker for all tests that ask for it; each takes topics of its own."""
    return _shared("kafka", KafkaBroker, lambda broker: broker.bootstrap)


@pytest.fixture(scope="session")
def s3_server() -> S3Server:
    """One S3-compatible store for all tests that ask for it; each takes a bucket of its own."""
    from servers.s3_server import S3Server  # finding jars needs PySpark, which most tests do not

    return _shared("s3", S3Server, lambda server: server.endpoint)


@pytest.fixture(scope="session")
def hdfs_cluster() -> HdfsCluster:
    """One HDFS cluster for all tests that ask for it; each takes a directory of its own."""
    from servers.hdfs_cluster import HdfsCluster

    return _shared("hdfs", HdfsCluster, lambda cluster: cluster.uri)


@pytest.fixture(scope="session")
def pulsar_server() -> PulsarServer:
    """One Pulsar for all tests that ask for it; each takes topics of its own."""
    from servers.pulsar_server import PulsarServer

    return _shared("pulsar", PulsarServer, lambda server: server.service_url)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests that ask for it; each takes a catalog (``catalog.key``) of its own."""
    from servers.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory(prefix="lakelog-postgres-") as place, PostgresServer(place) as server:
        yield server


@pytest.fixture(scope="session")
def rest_servers() -> Iterator[RestServers]:
    """One JVM for servers of REST catalogs; each test starts one of its own."""
    from servers.rest_catalog import RestServers

    with RestServers() as servers:
        yield servers

"""Logs of every registered system and catalogs of every kind, on real servers where they need one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog import Lake, connect
from lakelog.catalog import CATALOGS
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogSystem
from log_records import NewLocation
from servers.postgres_server import PostgresServer
from servers.pulsar_server import PulsarServer
from source_database import SourceDatabase

_SERVED = {"rest": [pytest.mark.rest]}
_CATALOGS = [
    *(pytest.param(kind, marks=_SERVED.get(kind, [])) for kind in sorted(CATALOGS)),
    pytest.param("sql on PostgreSQL", marks=pytest.mark.postgres),
]
_MARKS = {"kafka": [pytest.mark.kafka], "pulsar": [pytest.mark.pulsar]}
_LOGS = {
    **{name: (name, {}) for name in (*LOG_SYSTEMS, "journal")},
    "kafka record by record": ("kafka", {"socket.keepalive.enable": "true"}),  # the batches do not know it
    "pulsar without packs": ("pulsar", {"pulsar.producer.packs": "false"}),
}
"""Logs under the suite: the system and the properties that choose its clients."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what cannot be: a server of another process and the memory of this one."""
    out = [item for item in items if _is_impossible(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def _is_impossible(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    given = {} if callspec is None else callspec.params
    return given.get("catalog_options") == "rest" and given.get("io") == "memory"


@pytest.fixture(params=_CATALOGS)
def catalog_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What opens a new catalog of each kind."""
    kind, _, server = str(request.param).partition(" on ")
    if kind == "filesystem":
        return {"catalog.type": kind}
    if kind == "rest":
        warehouse = str(tmp_path / "warehouse")
        server = request.getfixturevalue("rest_servers").open(warehouse, "lake of tests")
        request.addfinalizer(server.stop)
        return server.options
    url = request.getfixturevalue("postgres_server").url if server else f"sqlite:///{tmp_path}/names.db"
    return {"catalog.type": kind, "catalog.uri": url, "catalog.key": uuid.uuid4().hex}


@pytest.fixture(params=[pytest.param(name, marks=_MARKS.get(_LOGS[name][0], [])) for name in sorted(_LOGS)])
def new_location(request: pytest.FixtureRequest, tmp_path: Path) -> NewLocation:
    """Locations of logs that do not exist yet; ``journal`` is registered while the tests run."""
    name, properties = _LOGS[request.param]
    address = ""
    if name == "journal":
        request.getfixturevalue("new_parts")
    if name == "kafka":
        address = request.getfixturevalue("kafka").bootstrap
    elif name == "pulsar":
        server: PulsarServer = request.getfixturevalue("pulsar_server")
        address, properties = server.service_url, {**properties, **server.properties}

    def make(buckets: int = 2, **more: object) -> LogLocation:
        topic = f"t-{uuid.uuid4()}"
        place = address or str(tmp_path / topic / "log.sqlite")
        return replace(LogLocation(name, place, topic, buckets, properties=properties), **more)

    return make


@pytest.fixture
def location(new_location: NewLocation) -> LogLocation:
    return LOG_SYSTEMS.create(new_location().system).create(new_location())


@pytest.fixture
def system(location: LogLocation) -> LogSystem:
    return LOG_SYSTEMS.create(location.system)


@pytest.fixture
def appender(system: LogSystem, location: LogLocation) -> Iterator[LogAppender]:
    opened = system.appender(location)
    yield opened
    opened.close()


@pytest.fixture
def reader(system: LogSystem, location: LogLocation) -> Iterator[LogReader]:
    opened = system.reader(location)
    yield opened
    opened.close()


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[SourceDatabase]:
    made = SourceDatabase(postgres_server)
    yield made
    made.drop_slots()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(warehouse=str(tmp_path / "warehouse")) as made:
        yield made

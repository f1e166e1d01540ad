"""Where the executors of a session are."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import InvalidOption
from lakelog.spark.session.session import check_locks, is_spread, session_place
from lakelog.table.catalog_config import CatalogConfig

SOCKETS = "spark.python.unix.domain.socket.enabled"


class _Session:
    def __init__(self, master: str) -> None:
        self.conf: dict[str, Any] = {"spark.master": master}


@pytest.mark.parametrize(
    ("master", "spread"),
    [
        ("local", False),
        ("local[4,2]", False),
        ("local-cluster[2,1,1024]", False),
        ("spark://127.0.0.1:7077", False),
        ("spark://localhost:7077,127.0.0.1:7078", False),
        ("spark://[::1]:7077", False),
        ("spark://master:7077", True),
        ("spark://127.0.0.1:7077,10.0.0.1:7077", True),
        ("spark://localhost.example.org:7077", True),
        ("yarn", True),
        ("k8s://https://127.0.0.1:6443", True),
        ("", True),
    ],
)
def test_executors_are_on_this_machine_when_no_other_one_reaches_the_master(master, spread) -> None:
    assert is_spread(_Session(master)) == spread


def test_a_driver_listens_beyond_loopback_only_for_executors_on_other_machines(monkeypatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for master in (None, "local[2]", "spark://localhost:7077"):
        assert session_place(master)["spark.driver.host"] == "127.0.0.1"
        assert session_place(master)["spark.driver.bindAddress"] == "127.0.0.1"
    for master in ("spark://master:7077", "k8s://https://cluster:6443"):
        assert session_place(master) == {"spark.master": master}


@pytest.mark.parametrize(("master", "more"), [("yarn", {SOCKETS: "false"}), ("spark://master:7077", {})])
def test_a_submitted_job_runs_where_it_was_submitted_and_on_yarn_without_unix_sockets(
    monkeypatch, master, more
) -> None:
    monkeypatch.setattr("lakelog.spark.session.session._submitted_master", lambda: master)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session_place(None) == more
    assert session_place(master) == {"spark.master": master, **more}


def test_a_lock_of_one_machine_is_refused_for_executors_on_others() -> None:
    local = {"storage.lock": "file", "storage.lock.address": "/locks"}
    catalogs = {"one": CatalogConfig("s3://b/one"), "two": CatalogConfig("s3://b/two", local)}
    check_locks(_Session("local[2]"), catalogs)
    check_locks(_Session("yarn"), {"one": catalogs["one"]})
    shared = {"storage.lock": "sql", "storage.lock.address": "postgresql+psycopg://host/db"}
    check_locks(_Session("yarn"), {"two": CatalogConfig("s3://b/two", shared)})
    with pytest.raises(InvalidOption, match="'storage.lock' = 'file' of catalog 'two' locks files of one machine"):
        check_locks(_Session("spark://master:7077"), catalogs)

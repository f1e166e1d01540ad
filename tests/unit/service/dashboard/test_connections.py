"""Connections that ask nothing: they take neither the server's files nor the place of one that asks."""

from __future__ import annotations

import socket
import ssl
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from dashboards import RunningDashboard, running_dashboard
from lakelog import connect

MOST = 4


@pytest.fixture(autouse=True)
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.service.dashboard.server._CONNECTIONS", MOST)


def idle_connections(dashboard: RunningDashboard, count: int, cleanup: ExitStack) -> list[socket.socket]:
    place = ("127.0.0.1", dashboard.server.port)
    return [cleanup.enter_context(socket.create_connection(place, timeout=120)) for _ in range(count)]


def wait_for_end(connection: socket.socket) -> None:
    with suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_the_oldest_of_too_many_are_ended_and_one_that_asks_is_answered(tmp_path: Path) -> None:
    with running_dashboard(tmp_path) as dashboard, ExitStack() as cleanup:
        idle = idle_connections(dashboard, 20, cleanup)
        for one in idle[: 20 - MOST]:
            wait_for_end(one)
        with dashboard.client() as client:
            assert client.get("/healthz").status_code == 200
        wait_for_end(idle[20 - MOST])


def test_a_running_request_keeps_its_connection(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create table d.log (id bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    with running_dashboard(tmp_path) as dashboard, ExitStack() as cleanup:
        client = cleanup.enter_context(dashboard.client())
        tail = cleanup.enter_context(client.stream("GET", "/api/v1/tables/d.log/tail"))
        lines = tail.iter_lines()
        assert next(lines) == ": connected"
        idle = idle_connections(dashboard, 20, cleanup)
        for one in idle[: 21 - MOST]:
            wait_for_end(one)
        with connect(warehouse=str(tmp_path)) as lake, lake.table("d.log").writer() as writer:
            writer.write(pa.table({"id": [4711]}))
        assert any("4711" in line for line in lines)


def test_handshakes_that_do_not_end_count_too(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    trusted = ssl.create_default_context(cafile=str(certificate))
    with running_dashboard(tmp_path, tls_certificate=certificate, tls_key=key) as dashboard, ExitStack() as cleanup:
        idle = idle_connections(dashboard, 20, cleanup)
        for one in idle[: 20 - MOST]:
            wait_for_end(one)
        address = f"https://localhost:{dashboard.server.port}"
        with httpx.Client(base_url=address, verify=trusted, trust_env=False, timeout=120) as client:
            assert client.get("/healthz").status_code == 200

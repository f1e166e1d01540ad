"""Logs on a Pulsar server for tests, and what its callers do when it is away."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from lakelog.errors import Unavailable
from lakelog.lake.table import Table
from lakelog.logstore.base import LogLocation
from log_tables import make
from servers.pulsar_server import PulsarServer

T = TypeVar("T")


def new_location(server: PulsarServer, **more: object) -> LogLocation:
    return replace(
        LogLocation("pulsar", server.service_url, f"t-{uuid.uuid4()}", 2, properties=server.properties), **more
    )


def on(server: PulsarServer, path: Path, key: str = ", primary key (id)", more: str = "") -> Table:
    admin = f"'properties.pulsar.admin.adminUrl' = '{server.admin_url}'"
    options = f", 'log-store.address' = '{server.service_url}', 'log-store.drop-with-table' = 'true', {admin}{more}"
    return make(path, options, key)


def eventually(work: Callable[[], T]) -> T:
    """What a caller does with a retriable error: the same again."""
    end = time.monotonic() + 120
    while True:
        try:
            return work()
        except Unavailable:
            assert time.monotonic() < end
            time.sleep(0.2)

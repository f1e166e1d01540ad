from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from flight_servers import RunningServer, running_server
from lakelog.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with ``db.t`` of three rows, which has a log."""
    with lakelog.connect(warehouse=tmp_path) as lake:
        options = {"log-store.enabled": "true"}
        table = lake.create_table(
            "db.t", {"id": "bigint not null", "name": "string"}, primary_key=["id"], options=options
        )
        table.write(pa.table({"id": [1, 2, 3], "name": ["tea", "milk", None]}))
        yield lake


@pytest.fixture
def server(lake: Lake, tmp_path: Path) -> Iterator[RunningServer]:
    """A server for the user of this machine."""
    with running_server(tmp_path) as server:
        yield server

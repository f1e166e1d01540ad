"""Warehouses on real servers: every test of this folder runs on an object store and on HDFS."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest

from servers.warehouse import Warehouse

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.s3), pytest.param("hdfs", marks=pytest.mark.hdfs)])
def warehouse(request: pytest.FixtureRequest) -> Warehouse:
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        return Warehouse(f"s3://{server.new_bucket()}/warehouse", server.options)
    return Warehouse(f"{request.getfixturevalue('hdfs_cluster').uri}/{uuid.uuid4().hex}/warehouse")

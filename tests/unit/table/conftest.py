"""Fixtures of the tests of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect
from lakelog.lake.lake import Lake


@pytest.fixture
def lakes(tmp_path: Path) -> tuple[Lake, Lake]:
    """Two that know nothing of each other: a service, and somebody who changes its tables."""
    return tuple(connect(warehouse=str(tmp_path / "warehouse")) for _ in range(2))  # type: ignore[return-value]

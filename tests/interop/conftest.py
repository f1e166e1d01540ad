"""Other readers of the same tables: Paimon's Java core, and pypaimon in an environment of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from paimon_java import BUNDLE, PaimonJava

from lakelog.service.jars import resolve_jars


@pytest.fixture(scope="session")
def java() -> Iterator[PaimonJava]:
    with PaimonJava(resolve_jars([BUNDLE])) as paimon:
        yield paimon

"""No record ends the process that reads it, or raises what no reader treats, or takes much memory to decode."""

from __future__ import annotations

import pytest
from hostile_records import attack

from depth import DEPTH
from lakelog.logstore.formats import LOG_FORMATS


@pytest.mark.parametrize("name", sorted(LOG_FORMATS))
def test_a_hostile_record_is_rows_or_a_bad_record(name: str) -> None:
    found = attack(name, DEPTH.cases(10_000), DEPTH.seed)
    assert not found.wrong, "\n".join(found.wrong[:5])
    assert found.peak < 512
    assert found.outcomes["decode: done"]

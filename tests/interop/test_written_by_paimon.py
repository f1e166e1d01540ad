"""Tables of all kinds that Paimon's Java core makes, in every view: lakelog reads what Paimon reads."""

from __future__ import annotations

import random
import runpy
import zlib
from pathlib import Path
from typing import Any

import paimon_histories  # noqa: F401 (registers its makers)
import paimon_variants  # noqa: F401 (registers its makers)
import pytest
from paimon_tables import MAKERS
from paimon_views import write_expected

SCRIPT = Path(__file__).parents[2] / "scripts" / "golden_report.py"
GOLDEN: dict[str, Any] = runpy.run_path(str(SCRIPT))

DIFFERENT = {("key_binary", "sys:files"): "Paimon prints the identity of a Java object for a key of type BYTES"}
"""(maker, view) that lakelog reads in another way on purpose, and why."""


@pytest.mark.parametrize("name", MAKERS)
def test_every_view_is_read_as_paimon_reads_it(java, tmp_path, name: str) -> None:
    MAKERS[name](java, tmp_path / name, name, random.Random(zlib.crc32(name.encode())))
    write_expected(java, tmp_path, name)
    views = GOLDEN["expected_views"](name, tmp_path)
    assert {"scan", "sys:files", "sys:snapshots"} <= set(views)
    outcomes = {view: GOLDEN["outcome"](name, view, rows, tmp_path) for view, rows in views.items()}
    known = {view for maker, view in DIFFERENT if maker == name}
    different = {view: outcome for view, outcome in outcomes.items() if outcome[0] != "equal"}
    assert {view: why for view, why in different.items() if view not in known} == {}
    assert known <= set(different), "a difference that is gone is still listed"

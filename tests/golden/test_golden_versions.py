"""Tables of each released version have the rows that it read, and this version continues them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakelog import connect
from versions.golden import GOLDEN, warehouses
from versions.kinds import KINDS, has_log, rows_of
from versions.version_job import fold, read, write


@pytest.mark.parametrize("golden", warehouses(), ids=lambda path: str(path.relative_to(GOLDEN)))
def test_a_table_of_a_released_version_is_read_and_continued(tmp_path: Path, golden: Path) -> None:
    expected = json.loads((golden / "expected.json").read_text())
    shutil.copytree(golden, tmp_path / "w")
    lake = connect(str(tmp_path / "w"))
    columns, options = KINDS[expected["kind"]]
    assert read(lake) == expected["read"]
    if has_log(options):
        assert fold(lake) == expected["fold"]
        assert read(lake, **{"read.mode": "union"}) == expected["read"]
    write(lake, rows_of(columns, 9))
    after = read(lake)
    assert len(after) == len(expected["read"]) + 3
    if has_log(options):
        assert fold(lake) == after


def test_each_released_version_has_tables() -> None:
    assert {path.parent.name for path in warehouses()} >= {"0.1.0", "0.2.0"}

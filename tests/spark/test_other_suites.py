"""What other systems' Spark SQL suites ask (``tests/suites``): every case is right, or refused as it says."""

from __future__ import annotations

import pytest

from lakelog import Lake
from suite_cases import RIGHT, SUITES, read_cases, verdict


@pytest.mark.parametrize("suite", sorted(path.stem for path in SUITES.glob("*.sql")))
def test_every_case_has_the_rows_that_its_suite_expects(lake: Lake, suite: str) -> None:
    found = {}
    for number, case in enumerate(c for c in read_cases() if c.suite == suite):
        lake.sql(f"create database d{number}; use d{number}")
        answer, told = verdict(case, lake.sql)
        if answer != RIGHT:
            found[case.title] = f"{answer}: {told}"
        for setting in case.settings:
            lake.sql(f"reset {setting}")
    assert found == {}

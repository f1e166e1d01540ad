"""Figures as people read them."""

from __future__ import annotations

import pytest

from lakelog.io.quantities import counted, format_bytes, format_duration

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),  # no "1000.0 kB"
        (10**9, "1.0 GB"),
        (5 * 10**18, "5000.0 PB"),
    ],
)
def test_bytes_have_the_unit_that_fits(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (-5, "0 ms"),  # clocks differ
        (850, "850 ms"),
        (999.6, "1 s"),
        (1_500, "1.5 s"),
        (9_960, "10 s"),
        (119_000, "119 s"),
        (119_500, "2 min"),
        (7_000_000, "117 min"),
        (HOUR * 3, "3 h"),
        (HOUR * 3.5, "3.5 h"),
        (DAY * 3, "3 d"),
        (DAY * 400, "400 d"),
    ],
)
def test_durations_and_ages_have_the_unit_that_fits(millis: float, text: str) -> None:
    assert format_duration(millis) == text


def test_counts_agree_with_their_noun() -> None:
    assert [counted(n, "file") for n in (0, 1, 1_200)] == ["0 files", "1 file", "1,200 files"]

"""No test is in no lane, and none is lost to continuous integration.

The checked tests are those of this run: all but three folders in ``make test``.
"""

from __future__ import annotations

import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from depth import SHARES, Depth
from lanes import COLLECTED, ROOT, Lane, lanes_of
from smoke import LONG, SMOKE

_SPEC = importlib.util.spec_from_file_location("ci", ROOT / "scripts" / "ci.py")
assert _SPEC is not None and _SPEC.loader is not None
ci = importlib.util.module_from_spec(_SPEC)
sys.modules["ci"] = ci
_SPEC.loader.exec_module(ci)

WHOLE = ("browser", "docs", "interop")
"""Folders that ``make test`` does not collect: a lane runs all of each."""


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> list[pytest.Item]:
    return request.config.stash[COLLECTED]


def missing(lanes: list[Lane], items: list[pytest.Item]) -> list[str]:
    """The tests that none of the lanes runs."""
    marked = [(item, {marker.name for marker in item.iter_markers()}) for item in items]
    return [item.nodeid for item, markers in marked if not any(lane.has(item.path, markers) for lane in lanes)]


def test_every_test_is_in_a_lane(collected: list[pytest.Item]) -> None:
    lanes = lanes_of("test", "test-more", "test-long")
    assert missing(lanes, [item for item in collected if item.path.parent.name not in WHOLE]) == []
    for folder in WHOLE:
        assert any(lane.expression == "" and ROOT / "tests" / folder in lane.paths for lane in lanes), folder


def test_continuous_integration_leaves_out_chaos_on_pulsar_other_engines_and_the_scenarios_of_hosts_alone(
    collected: list[pytest.Item],
) -> None:
    left_out = missing(
        lanes_of(*(lane.verb for lane in ci.LANES)), [item for item in collected if item.path.parent.name != "interop"]
    )
    named = [name for name in left_out if not name.startswith("tests/hosts/")]
    assert [name for name in named if "test_chaos.py" not in name or "pulsar" not in name] == []


def test_every_test_of_the_short_selection_exists(collected: list[pytest.Item]) -> None:
    items = [item for item in collected if item.path.parent.name == "spark" and item.get_closest_marker("spark")]
    names = {f"{item.path.name}::{name}" for item in items for name in (item.name, item.name.partition("[")[0])}
    files = {item.path.name for item in items}
    assert [test for test in sorted(SMOKE) if test.partition("::")[0] in files and test not in names] == []


def test_a_depth_says_how_many_cases_are_tried() -> None:
    assert [Depth(name).cases(40) for name in SHARES] == [4, 8, 40, 400]
    assert Depth("quick").cases(1) == 1
    assert [list(Depth(name).some(range(12))) for name in SHARES] == [[0, 10], [0, 5, 10], [*range(12)], [*range(12)]]
    with pytest.raises(ValueError, match="LAKELOG_DEPTH = 'deep': give one of quick, ci, full, night"):
        Depth("deep")


def test_every_long_test_exists(collected: list[pytest.Item]) -> None:
    found = {
        f"{item.path.parent.name}/{item.path.name}::{name}"
        for item in collected
        for name in (item.name, item.name.partition("[")[0])
    }
    files = {name.partition("::")[0] for name in found}
    assert [test for test in sorted(LONG) if test.partition("::")[0] in files and test not in found] == []


def test_successive_seeds_run_every_case_and_a_run_only_its_share() -> None:
    share = Fraction(1, 3)
    for count in (1, 2, 3, 7, 40):
        kept = [[n for n in range(count) if Depth("ci", seed).keeps("a test", n, count, share)] for seed in range(40)]
        assert {case for cases in kept for case in cases} == set(range(count))
        assert abs(sum(map(len, kept)) / 40 - count * share) < 0.3
    assert all(Depth("ci", 7).keeps("a test", case, 5, Fraction(1)) for case in range(5))


def test_a_depth_draws_its_seeds_and_points_by_its_seed() -> None:
    drawn = [Depth("ci", seed) for seed in (3, 3, 5_000)]
    assert drawn[0].seeds(50) == drawn[1].seeds(50) != drawn[2].seeds(50)
    assert all(one.seeds(50)[0] >= 0 and one.seeds(50)[-1] < 10_000 and len(one.seeds(50)) == 10 for one in drawn)
    points = {point for seed in range(5) for point in Depth("ci", seed).some(range(33))}
    assert points == set(range(33))


def test_the_lanes_of_a_landing_fit_its_budget() -> None:
    assert ci.LANES[:2] == ci.FIRST
    first, rest = (sum(lane.budget_s for lane in some) for some in (ci.FIRST, ci.LANES[len(ci.FIRST) :]))
    assert first + rest / ci.TOGETHER <= 25 * 60


def test_a_change_affects_the_tests_that_import_it_and_the_lanes_of_its_room() -> None:
    changed = [Path("src/lakelog/merge/engines/first_row.py"), Path("docs/guide/sql.md"), Path("tests/test_words.py")]
    tests = [str(path.relative_to(ROOT)) for path in ci.affected_tests(changed)]
    assert tests[0] == "tests/test_words.py"
    touched = [lane.verb for lane in ci.LANES[2:] if lane.is_touched(ci.rooms_of(changed))]
    assert touched == ["test-deep", "test-docs", "test-lowest"]

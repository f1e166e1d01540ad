"""No test is in no lane, and none is lost to continuous integration.

The checked tests are those of this run: all but three folders in ``make test``.
"""

from __future__ import annotations

import re

import pytest

from depth import SHARES, Depth
from lanes import COLLECTED, ROOT, Lane, lanes_of
from smoke import LONG, SMOKE

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


def test_continuous_integration_leaves_out_chaos_on_pulsar_and_other_engines_alone(
    collected: list[pytest.Item],
) -> None:
    verbs = re.findall(r'Lane\("([a-z-]+)"', (ROOT / "scripts" / "ci.py").read_text(encoding="utf-8"))
    assert verbs[:2] == ["check", "test"]
    left_out = missing(lanes_of(*verbs), [item for item in collected if item.path.parent.name != "interop"])
    assert [name for name in left_out if "test_chaos.py" not in name or "pulsar" not in name] == []


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

"""The declarations of metrics, and the files that name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.options import metrics as declared
from lakelog.options.metric import COUNTER, GAUGE, HISTOGRAM, Metric
from lakelog.options.metrics import METRICS

ROOT = Path(__file__).parents[3]
BOARD = ROOT / "docs" / "grafana" / "lakelog.json"
ALERTS = ROOT / "docs" / "grafana" / "alerts.yml"


def test_every_declaration_is_in_the_table_of_metrics_once() -> None:
    found = [value for value in vars(declared).values() if isinstance(value, Metric)]
    assert sorted(m.name for m in found) == sorted(METRICS)
    assert len({m.prometheus for m in found}) == len(found)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_a_declaration_is_one_that_prometheus_takes(metric: Metric) -> None:
    assert re.fullmatch(r"lakelog_[a-z0-9_]+", metric.prometheus)
    assert metric.prometheus.endswith("_total") is (metric.kind == COUNTER)
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    assert bool(metric.limits) is (metric.kind == HISTOGRAM)
    assert list(metric.limits) == sorted(metric.limits)
    assert metric.kind in (COUNTER, GAUGE, HISTOGRAM)


def test_the_unit_is_in_the_name_once() -> None:
    assert METRICS["bytes_written"].prometheus == "lakelog_bytes_written_total"
    assert METRICS["commit_duration"].prometheus == "lakelog_commit_duration_seconds"
    assert (METRICS["commit_duration"].otel, METRICS["commit_duration"].otel_unit) == ("lakelog.commit_duration", "s")


def test_what_counts_in_the_code_counts_what_is_declared_as_a_count() -> None:
    source = ROOT / "src" / "lakelog"
    names = {name: value for name, value in vars(declared).items() if isinstance(value, Metric)}
    text = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    added = set(re.findall(r"METER\.add\(\s*([A-Z0-9_]+)", text))
    observed = set(re.findall(r"METER\.observe\(\s*([A-Z0-9_]+)", text))
    assert {names[name].kind for name in added} == {COUNTER}
    assert {names[name].kind for name in observed} == {HISTOGRAM}
    counts = {name for name, metric in names.items() if metric.kind != GAUGE}
    assert counts - added - observed == set(), "declared, but nothing counts them"


def expressions(part: Any) -> Iterator[str]:
    """Every expression of a board."""
    if isinstance(part, dict):
        if isinstance(part.get("expr"), str):
            yield part["expr"]
        for value in part.values():
            yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


def unknown_names(expression: str) -> set[str]:
    """The metrics of an expression that nobody declares."""
    known = set()
    for metric in METRICS.values():
        endings = ("_bucket", "_sum", "_count") if metric.kind == HISTOGRAM else ("",)
        known |= {metric.prometheus + ending for ending in endings}
    return set(re.findall(r"lakelog_\w+", expression)) - known


def test_every_expression_of_the_board_names_declared_metrics() -> None:
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    found = list(expressions(board["panels"]))
    assert len(found) > 20
    assert {name for expression in found for name in unknown_names(expression)} == set()
    query = board["templating"]["list"][1]["query"]["query"]
    assert unknown_names(query) == set()
    assert unknown_names("lakelog_no_such_total") == {"lakelog_no_such_total"}


def test_every_label_in_the_board_is_one_of_the_metric() -> None:
    for expression in expressions(json.loads(BOARD.read_text(encoding="utf-8"))["panels"]):
        labels = set(re.findall(r"by \(([^)]*)\)", expression))
        used = {name.strip() for group in labels for name in group.split(",")} - {"le"}
        names = set(re.findall(r"lakelog_\w+", expression))
        for name in names:
            metric = next(m for m in METRICS.values() if name.startswith(m.base) and m.base in (name, _base(name)))
            assert used <= set(metric.labels), expression


def _base(name: str) -> str:
    return re.sub(r"_(total|bucket|sum|count)$", "", name)


def test_the_panels_of_the_board_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))


def test_every_alert_names_declared_metrics_and_says_what_to_do() -> None:
    text = ALERTS.read_text(encoding="utf-8")
    rules = text.split("- alert: ")[1:]
    assert len(rules) >= 5
    for rule in rules:
        expression = re.search(r"expr: (.+)", rule)
        assert expression is not None
        assert "lakelog_" in expression[1]
        assert unknown_names(expression[1]) == set()
        assert "what_to_do:" in rule

"""The demo's screen and report, from events that a demo would give."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from lakelog.cli.setup import demo as demo_module
from lakelog.errors import InternalError
from lakelog.service.demo.check import CarrierDelay, DemoProgress, DemoReport, DemoSettings, Latency

PROGRESS = DemoProgress(
    stage="streaming",
    elapsed_s=12.0,
    total_s=60.0,
    rows_sent=12_000,
    rows_read=11_900,
    file_rows=5_000,
    snapshots=6,
    log_latency_ms=Latency(180.4, 402.0, 11_900),
    tail_latency_ms=Latency(3.4, 6.1, 11_900),
    aggregate=(CarrierDelay("UA", 120, 3.25),),
)
REPORT = DemoReport(
    log="embedded",
    seconds=60.0,
    rows_sent=60_000,
    log_rows=60_000,
    rows_per_second=998.7,
    log_latency_ms=Latency(180.4, 402.0, 60_000),
    tail_latency_ms=Latency(3.4, 6.1, 60_000),
    file_latency_ms=None,
    equal=True,
    rows_compared=21_000,
    snapshots=30,
    table="demo.flights",
    table_path="/w/demo.db/flights",
    warehouse="/w",
)


def text_of(drawn: Any, terminal: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=terminal).print(drawn)
    return out.getvalue()


class Demos:
    def __init__(self, *events: DemoProgress | DemoReport) -> None:
        self.events, self.asked = events, []

    def create(self, name: str, settings: DemoSettings) -> Iterator[DemoProgress | DemoReport]:
        self.asked.append(settings)
        return iter(self.events)


def test_the_screen_shows_rows_latencies_and_the_live_aggregate() -> None:
    text = text_of(demo_module.draw_progress(PROGRESS))
    assert "12 of 60 s" in text
    assert "12,000 rows" in text
    assert "p50 180 ms, p99 402 ms" in text
    assert "p50 3.4 ms, p99 6.1 ms" in text
    assert ["UA", "120", "3.2"] in [line.split() for line in text.splitlines()]


def test_without_a_terminal_progress_is_a_line_every_few_seconds() -> None:
    out = io.StringIO()
    steps = [replace(PROGRESS, elapsed_s=float(second)) for second in range(11)]
    report = demo_module.show(iter([*steps, REPORT]), Console(file=out, width=40))
    assert report is REPORT
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["0", "5", "10"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_demo_without_a_report_is_an_error_and_not_a_success(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with pytest.raises(InternalError, match="without a report"):
        demo_module.show(iter([PROGRESS]), console)


def test_the_report_says_where_the_table_lies() -> None:
    text = text_of(demo_module.draw_report(REPORT))
    assert "equal: 21,000 rows compared" in text
    assert "/w/demo.db/flights" in text


def test_the_next_command_queries_the_table_that_the_demo_left() -> None:
    text = demo_module.next_command(replace(REPORT, warehouse="/my w"))
    assert """lakelog sql --warehouse '/my w' "select carrier, count(*), avg(arr_delay) from demo.flights""" in text


def test_json_holds_the_report_and_the_options_reach_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    demos = Demos(PROGRESS, REPORT)
    monkeypatch.setattr(demo_module, "_DEMOS", demos)
    path = tmp_path / "report.json"
    arguments = ["--seconds", "9", "--log", "kafka", "--address", "h:1", "--rate", "7", "--warehouse", "/w"]
    answer = CliRunner().invoke(demo_module.demo, [*arguments, "--json", str(path)], catch_exceptions=False)
    assert answer.exit_code == 0
    assert demos.asked == [DemoSettings(9.0, "kafka", "h:1", "/w", 7)]
    report = json.loads(path.read_text())
    assert report["equal"] is True
    assert report["log_latency_ms"] == {"p50": 180.4, "p99": 402.0, "samples": 60_000}
    assert report["file_latency_ms"] is None


def test_unequal_stores_fail_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "_DEMOS", Demos(replace(REPORT, equal=False, differences=("row 1 …",))))
    answer = CliRunner().invoke(demo_module.demo, [])
    assert answer.exit_code == 1
    assert "NOT EQUAL" in answer.stdout
    assert "row 1 …" in answer.stdout

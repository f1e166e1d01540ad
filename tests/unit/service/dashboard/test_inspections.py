"""The watcher of tables: what one table does is not shown of another, and nothing old is shown as new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakelog.errors import NotFound, Unavailable
from lakelog.service.dashboard.time_series import StatsHistory
from lakelog.service.dashboard.views import overview
from lakelog.service.dashboard.watcher import Watcher
from lakelog.table.health.health import TableHealth


def _is_well(name: str) -> TableHealth:
    return TableHealth(name, 100, (), (), (), None, ())


@dataclass
class OneLake:
    """A catalog of tables that are well; ``hung`` ones do not answer before ``answers`` is set."""

    tables: list[str]
    hung: set[str] = field(default_factory=set)
    answers: threading.Event = field(default_factory=threading.Event)
    inspected: list[str] = field(default_factory=list)
    fault: Exception | None = None

    def list_catalogs(self) -> list[str]:
        return ["lakelog"]

    def list_tables(self, catalog: str) -> list[str]:
        if self.fault is not None:
            raise self.fault
        return self.tables

    def health(self, name: str) -> TableHealth:
        if name not in self.tables:
            raise NotFound(f"no table {name}")
        self.inspected.append(name)
        if name in self.hung:
            self.answers.wait(240)
        return _is_well(name)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[[OneLake], Watcher]]:
    history, made = StatsHistory(tmp_path / "figures.sqlite"), []

    def start(lake: OneLake) -> Watcher:
        made.append((lake, Watcher(lake, history, late_s=0.3)))  # type: ignore[arg-type]
        made[-1][1].start()
        return made[-1][1]

    yield start
    for lake, watcher in made:
        lake.answers.set()
        watcher.stop()
    history.close()


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_table_that_does_not_answer_is_unreadable_and_the_others_are_inspected(
    watch: Callable[[OneLake], Watcher],
) -> None:
    lake = OneLake(["d.well", *(f"d.hung{number}" for number in range(12))])
    lake.hung = set(lake.tables[1:])
    watcher = watch(lake)
    until(lambda: len(watcher.all()[0]) == 13)
    shown = {line.name: line.score for line in overview(watcher).tables}
    assert shown == {"d.well": 100} | dict.fromkeys(lake.hung, 0)
    assert watcher.need("d.hung0").health.score == 0
    watcher.mark_watched("d.well")
    before = lake.inspected.count("d.well")
    until(lambda: lake.inspected.count("d.well") > before)
    assert lake.inspected.count("d.hung0") == 1  # no second one waits beside it
    lake.answers.set()
    until(lambda: {line.score for line in overview(watcher).tables} == {100})


def test_a_table_that_does_not_answer_does_not_keep_the_server_from_ending(
    watch: Callable[[OneLake], Watcher],
) -> None:
    lake = OneLake(["d.hung"], {"d.hung"})
    watcher = watch(lake)
    until(lambda: lake.inspected)
    watcher.stop()
    assert not lake.answers.is_set(), "it has not waited for the answer"


@pytest.mark.parametrize("fault", [Unavailable("no route"), RecursionError("deep"), MemoryError()])
def test_a_catalog_whose_listing_fails_is_named_and_retried(
    watch: Callable[[OneLake], Watcher], fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.service.dashboard.watcher._LIST_S", 0.1)
    lake = OneLake(["d.t"], fault=fault)
    watcher = watch(lake)
    until(lambda: "catalog lakelog" in watcher.troubles())
    lake.fault = None
    until(lambda: len(watcher.all()[0]) == 1 and not watcher.troubles())


def test_a_failed_write_of_samples_is_reported_and_inspections_continue(
    watch: Callable[[OneLake], Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    lake = OneLake(["d.t"])
    with monkeypatch.context() as patch:
        patch.setattr(StatsHistory, "add", fail)
        watcher = watch(lake)
        until(lambda: "disk full" in watcher.troubles().get("dashboard", ""))
    watcher.mark_watched("d.t")
    until(lambda: not watcher.troubles() and lake.inspected)

"""Which run comes next: by urgency, fair, within budgets, after delays; the time is given."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidRequest
from lakelog.service.optimizer.scheduler import Scheduler
from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.health.actions import COMPACTION, EXPIRY, HEALING, Action
from lakelog.table.maintenance.run_history import DONE, FAILED, NOTHING


def need(kind: str = COMPACTION, urgency: int = 50, size: int = 0) -> Action:
    return Action(kind, "why", "what", urgency, size)


def schedule(**given: object) -> Scheduler:
    return Scheduler(OptimizerSettings(**given))


def run(one: Scheduler, now: float, outcome: str = DONE, read: int = 0) -> tuple[str, str]:
    """Begins and ends the next run."""
    job = one.next(now)
    assert job is not None
    one.begin(job, now)
    one.end(job, outcome, read, now)
    return job.key


def test_the_most_urgent_need_of_all_tables_comes_first() -> None:
    one = schedule()
    one.offer("a", [need(EXPIRY, 30), need(urgency=50)], 0)
    one.offer("b", [need(HEALING, 90)], 0)
    assert [run(one, 0) for _ in range(3)] == [("b", HEALING), ("a", COMPACTION), ("a", EXPIRY)]
    assert one.next(0) is None


def test_of_equal_needs_the_table_served_least_recently_comes_first() -> None:
    one = schedule()
    order = []
    for at in range(6):
        for table in ("a", "b", "c"):
            one.offer(table, [need()], at)
        order.append(run(one, at)[0])
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert order[3:] == order[:3]


def test_processes_begin_with_different_tables() -> None:
    firsts = set()
    for salt in range(20):
        one = Scheduler(OptimizerSettings(), str(salt))
        for table in ("a", "b", "c"):
            one.offer(table, [need()], 0)
        firsts.add(one.next(0).table)
    assert firsts == {"a", "b", "c"}


def test_a_need_that_has_waited_becomes_more_urgent_than_new_ones() -> None:
    one = schedule(parallel=1)
    one.offer("small", [need(EXPIRY, 30)], 0)
    served = []
    for minute in range(40):
        one.offer("busy", [need(urgency=50)], minute * 60)
        served.append(run(one, minute * 60)[0])
    assert "small" in served
    assert 15 <= served.index("small") <= 25


def test_one_run_per_table_and_a_limit_of_parallel_runs() -> None:
    one = schedule(parallel=2)
    one.offer("a", [need(urgency=60), need(EXPIRY, 55)], 0)
    one.offer("b", [need()], 0)
    one.offer("c", [need(urgency=40)], 0)
    for expected in ("a", "b"):
        job = one.next(0)
        assert job.table == expected
        one.begin(job, 0)
    assert one.next(0) is None
    told = {w.table: w.why for w in one.waiting(0)}
    assert told == {"a": "compaction of the table is running", "c": "2 runs are active"}
    one.end(one.running["b"], DONE, 0, 1)
    assert one.next(1).table == "c"


def test_a_failure_delays_its_kind_for_its_table_longer_each_time_and_says_why() -> None:
    one = schedule(interval_s=30)
    delays, now = [], 0.0
    for _ in range(9):
        one.offer("a", [need()], now)
        job = one.next(now)
        one.begin(job, now)
        one.end(job, FAILED, 0, now, "Unavailable: no disk")
        one.offer("a", [need()], now)
        assert one.next(now) is None
        (waiting,) = one.waiting(now)
        assert "Unavailable: no disk" in waiting.why
        delays.append(round(waiting.seconds))
        assert one.seconds_to_next(now) == waiting.seconds
        now += waiting.seconds
    assert delays == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    one.offer("a", [need(EXPIRY)], now)
    one.offer("b", [need()], now)
    assert {run(one, now)[0] for _ in range(2)} == {"a", "b"}


def test_a_need_that_went_away_or_a_success_ends_the_delay() -> None:
    one = schedule()
    one.offer("a", [need()], 0)
    run(one, 0, FAILED)
    one.offer("a", [], 1)
    one.offer("a", [need()], 2)
    assert run(one, 2, DONE) == ("a", COMPACTION)
    one.offer("a", [need()], 2)
    assert one.next(2) is not None


def test_a_run_that_found_nothing_to_do_is_not_tried_at_once_again() -> None:
    one = schedule(interval_s=30)
    one.offer("a", [need()], 0)
    run(one, 0, NOTHING)
    one.offer("a", [need()], 1)
    assert one.next(1) is None
    assert one.next(31).table == "a"


def test_compactions_read_no_more_than_the_bytes_of_an_hour() -> None:
    one = schedule(bytes_per_hour=100, parallel=5)
    for table in ("a", "b", "c"):
        one.offer(table, [need(size=60)], 0)
    first = one.next(0)
    assert (first.most_bytes, first.may_exceed) == (100, True)
    one.begin(first, 0)
    second = one.next(0)
    assert (second.most_bytes, second.may_exceed) == (40, False)
    one.begin(second, 0)
    assert one.next(0) is None
    assert "100 bytes per hour are used up" in one.waiting(0)[0].why
    one.end(first, DONE, 60, 10)
    one.end(second, DONE, 30, 10)
    assert one.next(11).most_bytes == 10
    one.offer("d", [need(EXPIRY, 1)], 11)
    assert one.next(3599).most_bytes == 10
    assert one.next(3611).most_bytes == 100


def test_maintenance_without_reads_needs_no_byte_budget() -> None:
    one = schedule(bytes_per_hour=1)
    one.offer("a", [need(size=60)], 0)
    run(one, 0, read=60)
    one.offer("a", [need(size=60), need(EXPIRY, 30)], 1)
    assert run(one, 1) == ("a", EXPIRY)


def test_dropped_tables_and_unwanted_kinds_are_forgotten() -> None:
    one = schedule(kinds=(EXPIRY,))
    one.offer("a", [need(), need(EXPIRY)], 0)
    one.offer("b", [need(EXPIRY)], 0)
    one.keep({"b"})
    assert run(one, 0) == ("b", EXPIRY)
    assert one.next(0) is None


@pytest.mark.parametrize("wrong", [{"kinds": ("cleaning",)}, {"interval_s": 0}, {"parallel": 0}, {"bytes_per_hour": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        OptimizerSettings(**wrong)

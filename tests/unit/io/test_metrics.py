"""Counts of a process, and how they reach another one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakelog.errors import Unavailable
from lakelog.io import shared_counts as sharing
from lakelog.io.metrics import METER, Meter, Sample, Step, log_errors, merged
from lakelog.io.shared_counts import share_counts, shared_counts
from lakelog.options.metrics import COMMIT_DURATION, COMMITS, LOG_ERRORS, ROWS_WRITTEN


def test_a_counter_adds_up_by_its_labels() -> None:
    meter = Meter()
    meter.add(ROWS_WRITTEN, 3, table="db.t", store="log")
    meter.add(ROWS_WRITTEN, 4, store="log", table="db.t")
    meter.add(ROWS_WRITTEN, 5, table="db.t", store="files")
    assert meter.samples() == [
        Sample(ROWS_WRITTEN, ("db.t", "log"), 7),
        Sample(ROWS_WRITTEN, ("db.t", "files"), 5),
    ]


def test_a_label_that_is_missing_is_an_error_and_not_another_series() -> None:
    with pytest.raises(KeyError, match="store"):
        Meter().add(ROWS_WRITTEN, table="db.t")


def test_a_value_falls_into_the_first_bucket_that_it_does_not_exceed() -> None:
    meter = Meter()
    for seconds in (0.005, 0.006, 5000.0):
        meter.observe(COMMIT_DURATION, seconds, table="db.t", kind="APPEND")
    (sample,) = meter.samples()
    assert sample.value == pytest.approx(5000.011)
    assert sample.counts == (1, 1, *(0 for _ in COMMIT_DURATION.limits[2:]), 1)


def test_no_count_is_lost_between_threads() -> None:
    meter = Meter()

    def add() -> None:
        for _ in range(2000):
            meter.add(COMMITS, table="db.t", kind="APPEND")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sample.value for sample in meter.samples()] == [8000]


def test_a_listener_gets_each_step_with_its_attributes_and_its_failure() -> None:
    meter, heard = Meter(), list[Step]()
    end = meter.listen(heard.append)
    meter.listen(lambda step: 1 / 0)  # one that is broken harms nobody
    with meter.step("commit", table="db.t") as span:
        span.set(snapshot=7)
    with pytest.raises(Unavailable), meter.step("commit", table="db.t"):
        raise Unavailable("x")
    end()
    with meter.step("commit", table="db.t"):
        pass
    assert [(step.name, dict(step.fields), step.failure) for step in heard] == [
        ("commit", {"table": "db.t", "snapshot": 7}, None),
        ("commit", {"table": "db.t"}, "Unavailable"),
    ]
    assert span.seconds >= 0


def test_samples_of_several_processes_are_added_up() -> None:
    spread = Sample(COMMIT_DURATION, ("db.t", "APPEND"), 1.0, (1, 0, 2))
    one = Sample(COMMITS, ("db.t", "APPEND"), 1)
    assert merged([one, spread, one, spread]) == [
        Sample(COMMITS, ("db.t", "APPEND"), 2),
        Sample(COMMIT_DURATION, ("db.t", "APPEND"), 2.0, (2, 0, 4)),
    ]


def test_an_error_of_the_log_is_counted_and_goes_on() -> None:
    METER.reset()
    with pytest.raises(Unavailable), log_errors("db.t", "append"):
        raise Unavailable("the broker is away")
    assert METER.samples() == [Sample(LOG_ERRORS, ("db.t", "append", "Unavailable"), 1)]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process passes nothing on afterwards."""
    monkeypatch.setattr(sharing, "_WRITER", [])
    monkeypatch.setattr(METER, "_changed", None)


CHILD = """
from lakelog.io.metrics import METER
from lakelog.io.shared_counts import share_counts
from lakelog.options.metrics import COMMIT_DURATION, COMMITS
share_counts()
for _ in range(3):
    METER.add(COMMITS, table="db.t", kind="APPEND")
METER.observe(COMMIT_DURATION, 0.2, table="db.t", kind="APPEND")
"""


def test_what_another_process_has_counted_stays_when_it_has_ended(tmp_path: Path) -> None:
    for _ in range(2):
        environment = {**os.environ, "LAKELOG_METRICS_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", CHILD], env=environment, check=True, timeout=240)
    commits, spread = merged(shared_counts(str(tmp_path)))
    assert commits == Sample(COMMITS, ("db.t", "APPEND"), 6)
    assert (spread.metric, sum(spread.counts), spread.value) == (COMMIT_DURATION, 2, pytest.approx(0.4))


def test_a_process_does_not_count_its_own_file_twice(tmp_path: Path, alone: None) -> None:
    share_counts(str(tmp_path))
    METER.add(COMMITS, table="db.t", kind="APPEND")
    assert list(tmp_path.glob("*.json"))
    assert shared_counts(str(tmp_path)) == []


def test_a_directory_of_another_machine_is_left_alone(tmp_path: Path, alone: None) -> None:
    share_counts(str(tmp_path / "elsewhere"))
    METER.add(COMMITS, table="db.t", kind="APPEND")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_file_of_counts_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1-a.json").write_text("not json")
    (tmp_path / "2-b.json").write_text('[["of_a_later_version", ["db.t"], 1.0, []]]')
    assert shared_counts(str(tmp_path)) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_begins_at_zero() -> None:
    METER.reset()
    METER.add(COMMITS, table="db.t", kind="APPEND")
    child = os.fork()
    if child == 0:
        os._exit(len(METER.samples()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(METER.samples()) == 1

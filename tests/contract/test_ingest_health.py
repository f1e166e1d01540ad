"""What health, metrics and the doctor say of ``lakelog ingest``."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from dashboards import running_dashboard
from lakelog.errors import InvalidSchema
from lakelog.io.clock import now_ms
from lakelog.service.doctor.check import CheckContext
from lakelog.service.doctor.checks.tables import TablesCheck
from lakelog.service.metrics.table_gauges import health_samples
from lakelog.table.health.stats import SILENT_MS, IngestStats
from source_database import ingested

pytestmark = pytest.mark.postgres
DAY_MS = 24 * 3_600_000


def report_of(lake, name: str = "db.t") -> IngestStats | None:
    table = lake.table(name).logical
    return IngestStats.read(table.io, table.path)


def findings(lake) -> list[str]:
    return [found.kind for found in lake.table("db.t").health().findings]


@pytest.fixture
def table(database, lake) -> str:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1)")
    ingested(lake, database, "t")
    return "db.t"


def test_health_and_metrics_show_the_lag_and_the_slot(database, lake, table) -> None:
    health = lake.table(table).health()
    seen = health.figures.ingest
    plan = lake.ingest(database.url, ["t"], "db")
    assert (seen.source, seen.slot, seen.state) == ("public.t", plan.slot_name, "ended")
    assert (seen.position, seen.slot_state) == (plan.status()[0].position, "reserved")
    assert seen.held_bytes > 0 and not seen.is_gone and health.findings == ()
    assert database.server.password not in repr(health)
    samples = {sample.metric.name: sample.value for sample in health_samples(health)}
    assert samples["ingest_held"] == seen.held_bytes and samples["ingest_unread"] == seen.unread_bytes
    assert 0 <= samples["ingest_report_age"] < 600


def test_the_page_of_the_table_shows_it(lake, table, tmp_path: Path) -> None:
    with running_dashboard(tmp_path / "warehouse") as dashboard:
        page = urllib.request.urlopen(f"{dashboard.address}/tables/db.t").read().decode()
    assert "<dt>Ingest</dt>" in page and "slot keeps" in page


def test_a_run_is_seen_while_it_follows(database, lake, table) -> None:
    stop = threading.Event()
    run = lake.ingest(database.url, ["t"], "db", interval_s=0.05).run(stop)
    database.run("update t set v = 2")
    next(run)
    assert report_of(lake).state == "stream"
    assert findings(lake) == []
    stop.set()
    list(run)
    assert report_of(lake).state == "ended"


def test_a_killed_run_is_a_finding_until_the_next_one(database, lake, table, tmp_path: Path) -> None:
    job = [sys.executable, str(Path(__file__).with_name("ingest_job.py")), str(tmp_path / "warehouse")]
    logical = lake.table("db.t").logical
    logical.io.delete(IngestStats.path(logical.path))
    with subprocess.Popen([*job, database.url, "t"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in child.stdout:
            database.run("update t set v = v + 1")
            if report_of(lake) is not None:
                break
        assert findings(lake) == []
        child.send_signal(signal.SIGKILL)
    (found,) = lake.table(table).health().findings
    assert found.kind == "ingest-stopped"
    assert "public.t has not reported since" in found.reason and "keep its WAL" in found.reason
    assert "--tables public.t --into db --slot" in found.what_to_do
    (warned,) = (one for one in TablesCheck().run(CheckContext(lake.warehouse)) if one.outcome == "warn")
    assert "has not reported since" in warned.found
    ingested(lake, database, "t")
    assert findings(lake) == []


def test_a_failed_run_says_why(database, lake, table) -> None:
    database.run("alter table t add d date", "insert into t values (2, 2, 'infinity')")
    with pytest.raises(InvalidSchema):
        ingested(lake, database, "t")
    (found,) = lake.table(table).health().findings
    assert found.kind == "ingest-stopped" and "infinity" in found.reason


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"state": "ended", "age_ms": DAY_MS}, []),
        ({"state": "ended", "age_ms": 3 * DAY_MS}, ["ingest-stopped"]),
        ({"state": "ended", "age_ms": 3 * DAY_MS, "slot_state": "dropped"}, []),
        ({"state": "stream", "machine": "other/1", "age_ms": SILENT_MS - 60_000}, []),
        ({"state": "stream", "machine": "other/1", "age_ms": SILENT_MS + 1}, ["ingest-stopped"]),
        ({"slot_state": "unreserved"}, ["slot-at-risk"]),
        ({"slot_state": "extended"}, []),
    ],
)
def test_an_old_report_or_a_slot_without_its_wal_is_a_finding(lake, table, change, found) -> None:
    age_ms = change.pop("age_ms", 0)
    logical = lake.table("db.t").logical
    report = replace(report_of(lake), **{"reported_ms": now_ms() - age_ms, **change})
    report.write(logical.io, logical.path)
    assert findings(lake) == found


def test_a_dropped_slot_is_not_reported(database, lake, table) -> None:
    assert lake.ingest(database.url, ["t"], "db").drop_slot()
    assert lake.table(table).health().figures.ingest is None


def test_a_first_copy_that_failed_holds_no_slot(database, lake) -> None:
    database.run("create table t (id int primary key, d date)", "insert into t values (1, 'infinity')")
    with pytest.raises(InvalidSchema):
        ingested(lake, database, "t")
    (found,) = lake.table("db.t").health().findings
    assert "failed" in found.reason and "WAL" not in found.reason


def test_a_report_that_cannot_be_written_does_not_end_the_run(database, lake, table, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise InvalidSchema("no")

    monkeypatch.setattr(IngestStats, "write", fails)
    database.run("insert into t values (2, 2)")
    assert ingested(lake, database, "t") == 1

"""What a user sees of a materialized view: its position, its lag, and what keeps it from its sources."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, LakelogError
from lakelog.io.metrics import METER
from lakelog.lake import Lake
from lakelog.options import metrics as m
from lakelog.service.metrics.table_gauges import health_samples
from lakelog.table.commit.seal_thread import Sealer
from lakelog.table.health.score import pick_findings
from lakelog.table.health.stats import TableStats, ViewStats
from lakelog.table.views.report import ViewReport
from lakelog.table.views.sources import BEHIND, CURRENT, SourceState
from lakelog.table.write.positioned_writer import PositionedWriter

MINUTE = 60_000


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(str(tmp_path)) as found:
        found.sql(
            "create table db.a (id int, g string, primary key (id)) with ('log-store.enabled' = 'true', "
            "'commit.interval' = '1 h');"
            "create table db.b (id int, primary key (id))"
        )
        put(found, 1, 2)
        found.sql(
            "create materialized view db.v refresh every 1 minute as "
            "select a.g, count(*) as c from db.a join db.b on a.id = b.id group by a.g"
        )
        yield found


def put(lake: Lake, *ids: int) -> None:
    lake.write(pa.table({"id": pa.array(ids, pa.int32()), "g": ["x"] * len(ids)}), "db.a")


def shown(lake: Lake, source: str = "db.a") -> dict[str, Any]:
    rows = lake.table("db.v$view").scan().to_arrow().to_pylist()
    assert [row["source"] for row in rows] == ["db.a", "db.b"]
    return next(row for row in rows if row["source"] == source)


def findings(lake: Lake) -> list[tuple[str, str]]:
    return [(one.kind, one.what_to_do) for one in lake.health("db.v").findings]


def test_a_view_shows_its_position_in_each_source_and_how_far_it_is_behind(lake: Lake) -> None:
    first = shown(lake)
    assert (first["state"], first["commits_behind"], first["lag_ms"]) == ("current", 0, 0)
    assert first["snapshot_id"] == first["newest_snapshot_id"] == lake.table("db.a").latest_snapshot().id
    assert (first["refresh"], first["suspended"], first["computed_by"]) == ("every 60 seconds", False, "DuckDB")
    assert (first["last_refresh"] is not None, first["error"]) == (True, None)
    assert (shown(lake, "db.b")["snapshot_id"], shown(lake, "db.b")["newest_snapshot_id"]) == (0, None)
    put(lake, 3)
    put(lake, 4)
    late = shown(lake)
    assert (late["state"], late["snapshot_id"], late["commits_behind"]) == ("behind", first["snapshot_id"], 2)
    assert late["newest_snapshot_id"] == first["snapshot_id"] + 2
    oldest = lake.table("db.a").logical.store.snapshot(first["snapshot_id"] + 1)
    (found,) = (one for one in lake.health("db.v").figures.view.sources if one.name == "db.a")
    assert found.since_ms == oldest.time_millis, "the view lacks it since then, however new the newest commit is"
    assert shown(lake, "db.b")["state"] == "current"
    lake.sql("refresh materialized view db.v; alter materialized view db.v suspend")
    assert (shown(lake)["state"], shown(lake)["lag_ms"], shown(lake)["suspended"]) == ("current", 0, True)


def test_a_decided_epoch_without_a_snapshot_counts_as_behind(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sealer, "notify", lambda self: None)  # the first epoch of a process is sealed without waiting
    writer = PositionedWriter(lake.table("db.a").logical, "w")
    writer.write(pa.table({"id": pa.array([7], pa.int32()), "g": ["y"]}).to_batches()[0])
    writer.commit("p")
    late = shown(lake)
    assert (late["state"], late["commits_behind"]) == ("behind", 1)
    assert late["newest_snapshot_id"] == late["snapshot_id"], "no snapshot has it yet"
    assert late["lag_ms"] is not None
    writer.end()


def test_a_table_that_is_no_view_has_no_sources(lake: Lake) -> None:
    with pytest.raises(InvalidRequest, match=r"table db\.a is no materialized view"):
        lake.table("db.a$view").scan().to_arrow()


def test_a_handle_in_another_process_says_that_it_does_not_know_the_sources(lake: Lake) -> None:
    away = pickle.loads(pickle.dumps(lake.table("db.v$view").scan()))
    with pytest.raises(InvalidRequest, match="open it with lakelog.connect"):
        away.to_arrow()
    assert lake.table("db.v").logical == pickle.loads(pickle.dumps(lake.table("db.v").logical))


def test_a_source_of_another_catalog_is_found(tmp_path: Path) -> None:
    with connect(str(tmp_path / "one"), catalogs={"other": {"warehouse": str(tmp_path / "two")}}) as lake:
        lake.sql("create table other.db.a (id int, primary key (id)); create table db.a (id int)")
        lake.write(pa.table({"id": pa.array([1], pa.int32())}), "other.db.a")
        lake.sql("create materialized view db.v as select id from other.db.a")
        (row,) = lake.table("db.v$view").scan().to_arrow().to_pylist()
        assert (row["source"], row["state"], row["snapshot_id"]) == ("other.db.a", "current", 1)
        assert findings(lake) == []
    with connect(str(tmp_path / "one")) as lake:  # without the catalog nothing is said about its tables
        (row,) = lake.table("db.v$view").scan().to_arrow().to_pylist()
        assert row["state"] == "unreadable"
        (finding,) = lake.health("db.v").findings
        assert (finding.kind, "catalog 'other'" in finding.reason) == ("view-failed", True)


def test_a_source_that_was_dropped_or_created_again_is_found_with_its_remedy(lake: Lake) -> None:
    assert findings(lake) == []
    lake.sql("drop table db.a")
    assert shown(lake)["state"] == "dropped"
    ((kind, remedy),) = findings(lake)
    assert (kind, remedy.startswith("create it again, then ALTER MATERIALIZED VIEW db.v REBUILD")) == (
        "view-source",
        True,
    )
    lake.sql("create table db.a (id int, g string, primary key (id))")
    assert shown(lake)["state"] == "replaced"
    assert findings(lake) == [("view-source", "ALTER MATERIALIZED VIEW db.v REBUILD")]
    assert lake.health("db.v").score <= 20
    lake.sql("alter materialized view db.v rebuild")
    assert (findings(lake), shown(lake)["state"]) == ([], "current")


def test_a_refresh_that_failed_says_why_until_one_succeeds(lake: Lake) -> None:
    lake.sql("alter table db.a rename column g to h")
    with pytest.raises(LakelogError) as failure:
        lake.views.refresh("db.v")
    assert shown(lake)["error"].endswith(str(failure.value))
    (finding,) = lake.health("db.v").findings
    assert (finding.kind, str(failure.value) in finding.reason) == ("view-failed", True)
    assert finding.what_to_do == "REFRESH MATERIALIZED VIEW db.v"
    lake.sql("alter table db.a rename column h to g")
    lake.views.refresh("db.v")
    assert (findings(lake), shown(lake)["error"]) == ([], None)


def test_a_refresh_of_a_dropped_view_leaves_nothing_behind(lake: Lake, tmp_path: Path) -> None:
    from lakelog.sql.views.refresh import ViewRefresher

    session = lake._session
    refresher = ViewRefresher(session, session.identifier("db.v"), str(tmp_path))
    refresher.refresh()
    lake.views.drop("db.v")
    with pytest.raises(LakelogError):
        refresher.refresh()
    assert not (tmp_path / "db.db" / "v").exists()


def test_snapshots_that_are_kept_for_a_view_that_is_not_there_are_found(lake: Lake) -> None:
    put(lake, 3)
    lake.views.refresh("db.v")
    assert lake.health("db.a").findings == ()
    session = lake._session
    session.tables.drop_table(session.identifier("db.v"), if_exists=False, purge=True)  # not as DROP VIEW does it
    (finding,) = lake.health("db.a").findings
    assert (finding.kind, finding.is_warning, "view db.v, which is not there" in finding.reason) == (
        "view-missing",
        True,
        True,
    )
    lake.sql(finding.what_to_do)
    assert lake.health("db.a").findings == ()
    assert lake.table("db.a").logical.store.consumers.list() == []


VIEW = ViewStats("select", "every 60 seconds", MINUTE, False, (SourceState("db.a", CURRENT, 3, 3, 0),))


def kinds(view: ViewStats, now: int = 10 * MINUTE) -> list[str]:
    return [one.kind for one in pick_findings(TableStats("db.v", now, True, view=view), ())]


@pytest.mark.parametrize(
    ("every_ms", "suspended", "lag_ms", "found"),
    [
        (MINUTE, False, MINUTE, []),
        (MINUTE, False, 3 * MINUTE, ["view-behind"]),
        (0, False, 20_000, []),
        (0, False, MINUTE, ["view-behind"]),
        (None, False, 9 * MINUTE, []),
        (0, True, 9 * MINUTE, ["view-suspended"]),
    ],
)
def test_a_view_that_is_behind_for_longer_than_its_interval_allows_is_found(every_ms, suspended, lag_ms, found) -> None:
    late = SourceState("db.a", BEHIND, 3, 4, 1, 10 * MINUTE - lag_ms)
    assert kinds(replace(VIEW, every_ms=every_ms, suspended=suspended, sources=(late,))) == found


def test_findings_of_a_view_name_one_cause() -> None:
    failed = ViewReport("DuckDB", 1, failed_ms=2, error="Unavailable: no disk")
    late = SourceState("db.a", BEHIND, 3, 4, 1, 1)
    assert kinds(VIEW) == []
    assert kinds(replace(VIEW, sources=(late,), report=failed)) == ["view-failed"]
    assert kinds(replace(VIEW, sources=(late, SourceState("db.b", "dropped")), report=failed)) == ["view-source"]
    assert kinds(replace(VIEW, trouble="Corrupt: no position")) == ["view-failed"]
    hostile = TableStats("db.a b", 9, True, view=replace(VIEW, suspended=True))
    assert pick_findings(hostile, ())[0].what_to_do == "ALTER MATERIALIZED VIEW db.`a b` RESUME"


def test_metrics_count_refreshes_and_show_the_lag_of_each_source(lake: Lake) -> None:
    def counted() -> tuple[float, int]:
        own = {s.metric: s for s in METER.samples() if s.labels[0] == "db.v" and s.metric.name.startswith("view")}
        return own[m.VIEW_ROWS].value, sum(own[m.VIEW_DURATION].counts)

    lake.write(pa.table({"id": pa.array([1, 2], pa.int32())}), "db.b")
    (late,) = (s for s in health_samples(lake.health("db.v")) if s.metric is m.VIEW_BEHIND and s.value)
    assert (late.labels, late.value) == (("db.v", "db.b"), 1)
    before = sum(s.value for s in METER.samples() if s.metric is m.VIEW_ROWS and s.labels == ("db.v",))
    lake.views.refresh("db.v")
    rows, refreshes = counted()
    assert rows == before + 1
    lake.views.refresh("db.v")
    assert counted() == (rows, refreshes), "a refresh without a change is not one"
    gauges = {s.labels[1]: s.value for s in health_samples(lake.health("db.v")) if s.metric is m.VIEW_LAG}
    assert gauges == {"db.a": 0, "db.b": 0}
    lake.sql("alter table db.a rename column g to h")
    with pytest.raises(LakelogError):
        lake.views.refresh("db.v")
    assert sum(s.value for s in METER.samples() if s.metric is m.VIEW_FAILURES and s.labels[0] == "db.v") >= 1


def test_ctrl_c_during_a_refresh_is_ctrl_c(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakelog.table.views.local_state import LocalState

    class Stopped:
        """DuckDB, while a signal handler has raised an exception."""

        def __init__(self, real: Any) -> None:
            self.real = real

        def execute(self, statement: str) -> Any:
            if statement.startswith("INSERT"):
                raise RuntimeError("Query interrupted")
            return self.real.execute(statement)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    made = LocalState.__init__

    def stopped(state: Any, *arguments: Any) -> None:
        made(state, *arguments)
        state._db = Stopped(state._db)

    monkeypatch.setattr(LocalState, "__init__", stopped)
    put(lake, 5)
    with pytest.raises(KeyboardInterrupt):
        lake.views.refresh("db.v")
    monkeypatch.undo()
    assert findings(lake) == [], "it is no failure of the refresh"
    lake.views.refresh("db.v")
    assert shown(lake)["state"] == "current"

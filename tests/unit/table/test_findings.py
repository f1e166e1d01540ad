"""What breaks the guarantee of a table is found, caps its health and is said the same everywhere."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakelog import connect
from lakelog.cli.tables import health, log
from lakelog.io.machine import process_space
from lakelog.io.storage.file_io import DiskSpace
from lakelog.lake.table import Table
from lakelog.options import metrics as m
from lakelog.options.option import Options
from lakelog.service.dashboard.views import line_of
from lakelog.service.dashboard.watcher import Watched, sample_of
from lakelog.service.metrics.table_gauges import health_samples
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.table.health.actions import HEALING, Action, find_blockers, plan_actions
from lakelog.table.health.score import pick_findings, unreadable
from lakelog.table.health.stats import (
    BATCH,
    BucketStats,
    DeadRun,
    LogBucketStats,
    LogStats,
    SnapshotStats,
    TableStats,
    WriterStats,
)
from lakelog.table.maintenance.run_history import DONE, Run, Runs
from log_tables import JSON, make, rows, silence

KEYED = TableStats("db.t", 1_000, is_keyed=True)
BUCKET = LogBucketStats(0, 10, 90, 50, 50, 0)


def kinds(stats: TableStats) -> list[str]:
    return [one.kind for one in pick_findings(stats, ())]


def test_a_writer_that_died_is_red_until_the_next_writer_has_taken_over(tmp_path: Path) -> None:
    table = make(tmp_path)
    dead = table.writer()
    dead.write(rows(1, 7, 8, 9))
    dead.flush()
    silence(table, *table.logical.registered.writers())
    found = table.health()
    assert found.score <= 20
    assert [one.kind for one in found.findings] == ["dead-writer"]
    assert "lakelog optimize db.t --once --only healing" in found.findings[0].what_to_do
    assert found.parts[2].points < 15
    table.write(rows(30))
    assert table.health().findings == (), "the next writer has taken the rows back"


def test_a_log_without_its_records_and_files_that_are_ahead_of_it_differ() -> None:
    assert kinds(replace(KEYED, log=LogStats((BUCKET,)))) == []
    assert kinds(replace(KEYED, log=LogStats((replace(BUCKET, lost=4),)))) == ["stores-differ"]
    (ahead,) = pick_findings(replace(KEYED, log=LogStats((replace(BUCKET, applied=91),))), ())
    assert (ahead.kind, "offset 91" in ahead.reason) == ("stores-differ", True)


def test_records_that_expired_before_they_were_in_files_are_found(tmp_path: Path) -> None:
    from log_tables import trim

    table = make(tmp_path)
    table.write(rows(1, 2, 3, 4))
    assert table.health().findings == ()
    with table.writer() as writer:
        writer.write(rows(5, 6, 7, 8))
        writer.flush()
        trim(table)
        assert [one.kind for one in table.health().findings] == ["stores-differ"]


@pytest.mark.parametrize(
    ("space", "found", "warns"),
    [
        (None, [], True),
        (DiskSpace(1 << 40, 1 << 41), [], True),
        (DiskSpace(1 << 30, 1 << 40), ["low-space"], True),
        (DiskSpace(8 << 20, 24 << 20), ["low-space"], False),
    ],
)
def test_a_disk_that_is_nearly_full_is_found_and_one_that_is_full_is_red(space, found, warns) -> None:
    findings = pick_findings(replace(KEYED, space=space), ())
    assert ([one.kind for one in findings], all(one.is_warning for one in findings)) == (found, warns)


def test_maintenance_that_died_is_red_while_it_is_still_needed(tmp_path: Path) -> None:
    dead = SnapshotStats(dead_run=DeadRun("compaction", "host", 7))
    need = Action("compaction", "", "", 50)
    assert pick_findings(replace(KEYED, snapshots=dead), ()) == ()
    (found,) = pick_findings(replace(KEYED, snapshots=dead), (need,))
    assert (found.kind, found.action) == ("dead-run", "compaction")
    table = make(tmp_path)
    table.write(rows(1))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    run = Run("db.t", "compaction", "test", 1_000, process_space(), ended.pid, id="0" * 16)
    Runs(table.logical.io, table.path).record(run)
    assert table.health().figures.snapshots.dead_run == DeadRun("compaction", run.host, ended.pid)


def test_lag_is_the_same_in_health_system_table_commands_metrics_and_dashboard(tmp_path: Path) -> None:
    table, warehouse = make(tmp_path, JSON), str(tmp_path / "warehouse")
    table.write(rows(*range(20)))

    def everywhere() -> list[int]:
        found = table.health()
        bucket_lines = [one for one in lines(log, ["db.t", *where]) if one["kind"] == "bucket"]
        return [
            found.lag,
            sum(one["lag"] for one in bucket_lines),
            lines(health, ["db.t", *where])[0]["figures"]["log"]["lag"],
            sum(int(one.value) for one in health_samples(found) if one.metric is m.LOG_LAG),
            int(sample_of(found).lag),
            line_of(Watched("db.t", 0, found)).lag,
        ]

    where = ["--warehouse", warehouse, "--format", "jsonl"]
    assert everywhere() == [0] * 6
    with table.writer() as writer:
        writer.write(rows(*range(20, 30)))
        writer.flush()
        at_work = everywhere()
        assert len(set(at_work)) == 1 and at_work[0] >= 10


@pytest.mark.parametrize("more", ["", JSON])
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_rows_of_a_dead_writer_wait_for_the_files_until_they_are_taken_back(
    tmp_path: Path, more: str, key: str
) -> None:
    table = make(tmp_path, more, key)
    table.write(rows(*range(20)))
    dead = table.writer()
    dead.write(rows(*range(10, 19)))
    dead.flush()
    assert table.health().lag == 9
    (name,) = table.logical.registered.writers()
    silence(table, name)
    assert (table.health().lag, table.health().figures.log.waiting_ms is None) == (9, False)
    assert run_action(table.logical, HEALING, RunContext(lambda: False)).outcome == DONE
    healed = table.health()
    assert (healed.lag, healed.figures.log.waiting_ms, healed.findings, healed.needs) == (0, None, (), ())
    assert {row["lag"] for row in table_rows(table, "$log") if row["kind"] == "bucket"} == {0}


@pytest.mark.parametrize("more", ["", JSON])
@pytest.mark.parametrize("retention", ["", ", 'log-store.retention' = '3 d'"])
def test_rows_that_only_the_log_will_have_are_a_figure_of_their_own(tmp_path: Path, more: str, retention: str) -> None:
    table = make(tmp_path, f"{more}{retention}, 'emit.mode' = 'log'")
    for number in range(3):
        table.write(rows(*range(100), name=f"n{number}"))
    health = table.health()
    assert (health.lag, health.figures.log.log_only, health.figures.log.unowned, health.waits) == (0, 300, 0, ())
    (found,) = health.findings
    assert (found.kind, found.is_warning) == ("only-in-log", True)
    assert found.reason.endswith("expire 3 d after their write" if retention else "the log keeps them")
    assert "300 rows are only in the log" in found.reason and "follow" not in found.what_to_do
    assert "300 rows will be in no file" in health.parts[1].why
    assert sum(one.value for one in health_samples(health) if one.metric is m.LOG_ONLY) == 300
    table.write(rows(*range(200, 210)), options={"emit.mode": "auto"})
    assert (table.health().lag, table.health().figures.log.log_only) == (0, 300)


def table_rows(table: Table, name: str) -> list[dict[str, object]]:
    return connect(warehouse=table.path.rpartition("/db.db")[0]).table(f"db.t{name}").scan().to_arrow().to_pylist()


def lines(command: object, arguments: list[str], code: int = 0) -> list[dict[str, object]]:
    ended = CliRunner().invoke(command, arguments)  # type: ignore[arg-type]
    assert ended.exit_code == code, ended.output
    return [json.loads(line) for line in ended.output.splitlines()]


def test_what_is_unknown_is_neither_zero_nor_green() -> None:
    from lakelog.table.health.health import health_of

    class Plain:
        name, options = "db.t", Options()

    away = health_of(replace(KEYED, log=LogStats(trouble="Unavailable: no broker")), Plain())  # type: ignore[arg-type]
    line, sample = line_of(Watched("db.t", 0, away)), sample_of(away)
    assert (line.lag, line.log_is_known, line.finding[:22]) == (None, False, "the log cannot be read")
    assert (sample.lag, sample.log_end, sample.open_epochs, sample.waiting_ms) == (None, None, None, None)
    assert not [one for one in health_samples(away) if one.metric in (m.LOG_LAG, m.OPEN_EPOCHS, m.OLDEST_WAITING)]
    assert all(part.points == 0 for part in away.parts if "unknown" in part.why)


@pytest.mark.parametrize("break_it", ["manifest", "schema"])
def test_a_table_that_cannot_be_read_is_first_in_the_list_of_a_lake(tmp_path: Path, break_it: str) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        for name in ("a", "b"):
            lake.sql(f"create table db.{name} (id int)")
            lake.table(f"db.{name}").write(rows(1).select(["id"]))
        for path in (tmp_path / "db.db" / "b" / break_it).iterdir():
            path.unlink() if break_it == "manifest" else path.write_bytes(b"{")
    with connect(warehouse=str(tmp_path)) as lake:
        from lakelog.filestore.metadata.manifests import MANIFEST_CACHE

        MANIFEST_CACHE.clear()
        found = lake.health("db.b")
        assert (found.score, found.findings[0].kind, found.lag) == (0, "unreadable", None)
    assert [one["table"] for one in lines(health, ["--warehouse", str(tmp_path), "--format", "jsonl"], 1)] == [
        "db.b",
        "db.a",
    ]


HOSTILE = "db.t;touch hacked #'"


def test_a_command_to_copy_keeps_the_name_of_a_table_in_one_word() -> None:
    log_with_all = LogStats(
        (replace(BUCKET, lost=4, unowned=2), replace(BUCKET, applied=91)),
        (WriterStats("q", BATCH, 3, 3, 0, 0, is_gone=True),),
    )
    buckets = (BucketStats("{}", 0, 9, 9_000, 90, 9, 9, 9, 9, 9_000),)
    snapshots = replace(KEYED.snapshots, expirable=100, full_compaction_due=True)
    stats = TableStats(HOSTILE, 1_000, is_keyed=True, log=log_with_all, buckets=buckets, snapshots=snapshots)
    needed = plan_actions(stats, Options(), 1_000)
    advice = [one.what_to_do for one in (*needed, *pick_findings(stats, needed), unreadable(HOSTILE, "why"))]
    advice += [one.what_to_do for one in find_blockers(stats, Options(), 1_000) if "lakelog" in one.what_to_do]
    commands = [text for text in advice if text.startswith("lakelog")]
    assert len({text.split()[1] for text in commands}) >= 6, commands
    for text in commands:
        assert HOSTILE in shlex.split(text.partition("; the log")[0]), text


def test_a_statement_to_copy_keeps_the_name_of_a_table_in_one_text() -> None:
    stats = replace(KEYED, name="db.it's", snapshots=replace(KEYED.snapshots, tags_over=1, old_partitions=1))
    advice = [one.what_to_do for one in plan_actions(stats, Options(), 1_000)]
    assert [text for text in advice if text.startswith("CALL") and r"('db.it\'s')" not in text] == []
    assert sum(text.startswith("CALL") for text in advice) >= 2
    (alter,) = find_blockers(replace(KEYED, name="db.a b"), Options({"optimizer.enabled": "false"}), 1_000)
    assert "ALTER TABLE db.`a b` SET" in alter.what_to_do

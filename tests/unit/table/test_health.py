"""The health of real tables: statistics of one inspection, needs and waits that follow, JSON, the command."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli.tables import health
from lakelog.errors import Unavailable
from lakelog.io import clock
from lakelog.lake.table import Table
from lakelog.table.health import collect_log
from lakelog.table.log.register import NamedReaders
from lakelog.table.maintenance.compaction_task import bucket_task, leases_of
from limits import unsealed
from log_tables import make, rows, write

HOUR = 3_600_000


def plain(tmp_path, options: str = "", key: str = ", primary key (id)") -> Table:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    given = ", ".join(("'write-only' = 'true'", "'bucket' = '1'", *([] if key else ["'bucket-key' = 'id'"])))
    lake.sql(f"create table db.t (id int, name string{key}) tblproperties ({given}{options})")
    return lake.table("db.t")


def later(monkeypatch, millis: int) -> None:
    now = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now() + millis)


def kinds(table: Table) -> list[str]:
    return [need.kind for need in table.health().needs]


def test_a_new_table_is_well(tmp_path) -> None:
    found = plain(tmp_path).health()
    assert (found.score, found.needs, found.waits, found.figures.buckets) == (100, (), (), ())
    assert found.figures.snapshots.newest_id is None


@pytest.mark.parametrize("key", [", primary key (id)", ""])
def test_files_are_counted_as_a_compaction_sees_them_and_it_ends_the_need(tmp_path, key: str) -> None:
    table = plain(tmp_path, key=key)
    for number in range(4):
        write(table, number)
    assert kinds(table) == []
    write(table, 4)
    found = table.health()
    (bucket,) = found.figures.buckets
    assert (bucket.files, bucket.rows, bucket.sorted_runs, bucket.level0_files, bucket.small_files) == (5,) * 5
    assert (bucket.due_files, bucket.due_bytes) == (5, bucket.bytes)
    (need,) = found.needs
    assert (need.kind, need.bytes) == ("compaction", bucket.bytes)
    assert found.figures.snapshots.kept == 5
    table.compact(full=False)
    assert kinds(table) == []
    assert table.health().figures.files == 1


def test_snapshots_that_expiry_would_remove_and_those_that_a_consumer_holds(tmp_path, monkeypatch) -> None:
    table = plain(tmp_path, ", 'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '2'")
    for number in range(4):
        write(table, number)
    assert table.health().figures.snapshots.expirable == 2
    table.logical.store.consumers.record("slow", 2)
    later(monkeypatch, HOUR // 2)
    found = table.health()
    history = found.figures.snapshots
    assert (history.kept, history.expirable, history.held, history.holder) == (4, 1, 1, "slow")
    assert [need.kind for need in found.needs] == ["expiry"]
    assert any("'slow'" in wait.why for wait in found.waits)
    assert len(table.expire_snapshots()) == 1
    assert table.health().figures.snapshots.expirable == 0


def test_old_tags_partitions_and_orphan_files(tmp_path, monkeypatch) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(
        "create table db.t (id int, day string) partitioned by (day) "
        "tblproperties ('partition.expiration-time' = '7 d', 'write-only' = 'true')"
    )
    table = lake.table("db.t")
    table.write(pa.table({"id": pa.array([1, 2], pa.int32()), "day": ["2020-01-01", "2999-01-01"]}))
    table.create_tag("short", retained="1 ms")
    clock.sleep(0.01)
    found = table.health().figures.snapshots
    assert (found.old_partitions, found.tags, found.tags_over) == (1, 1, 1)
    assert kinds(table) == ["partition-expiry", "tag-expiry"]
    later(monkeypatch, 8 * 24 * HOUR)
    assert kinds(table)[-1] == "orphan-cleaning"


def test_a_full_compaction_is_due_by_the_options_only_when_it_would_do_something(tmp_path) -> None:
    table = plain(tmp_path, ", 'full-compaction.delta-commits' = '2'")
    write(table, 1)
    assert kinds(table) == []
    write(table, 2)
    assert kinds(table) == ["full-compaction"]
    table.compact()
    assert kinds(table) == []


def test_rows_that_are_in_the_log_alone_are_lag_with_an_age(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    write(table, 1, 2, 3, 4)
    NamedReaders(table.logical.io, table.path).record("mirror", {0: 1, 1: 2})
    writer = table.writer()
    writer.write(rows(5, 6, 7, 8))
    writer.flush()
    before = clock.now_ms()
    later(monkeypatch, HOUR // 2)
    found = table.health()
    log = found.figures.log
    assert log.lag >= 4
    assert log.waiting_ms <= before and log.newest_ms >= log.waiting_ms >= log.files_ms
    assert log.open_epochs == 1
    assert log.oldest_open_ms is not None and log.oldest_open_ms <= before
    assert [w.kind for w in log.writers] == ["batch"]
    assert not log.writers[0].is_gone
    assert [(r.name, r.lag > 4) for r in log.readers] == [("mirror", True)]
    assert [b.read_up_to for b in log.buckets] == [1, 2]
    assert found.score <= 70
    assert "has not committed" in found.waits[0].why
    writer.commit()
    writer.close()
    assert table.health().figures.log.lag == 0


def test_a_decided_epoch_without_a_snapshot_is_open_by_its_decided_offsets(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1, 2, 3, 4))
    unsealed(monkeypatch)
    writer.commit()
    log = table.health().figures.log
    assert all(b.applied < b.decided <= b.end for b in log.buckets)
    (at_work,) = log.writers
    assert (at_work.waiting, at_work.undecided_ms, log.open_epochs) == (1, None, 1)


def test_an_unavailable_log_is_reported_and_hides_no_other_finding(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    write(table, 1)

    def away(*_: object) -> None:
        raise Unavailable("the broker does not answer")

    monkeypatch.setattr(collect_log, "capture", away)
    found = table.health()
    assert found.figures.log.trouble == "Unavailable: the broker does not answer"
    assert found.figures.files == 1
    assert (found.score, found.lag, found.figures.log.open_epochs) == (20, None, None)
    assert [one.kind for one in found.findings] == ["log-unreachable"]
    assert "score" not in found.parts[1].why and found.parts[1].points == 0
    assert table.health(with_log=False).figures.log is None


def test_a_bucket_under_compaction_is_reported(tmp_path) -> None:
    table = plain(tmp_path)
    write(table, 1)
    (entry,) = table.logical.store.live_entries(table.latest_snapshot())
    lease = leases_of(table.logical).take(bucket_task(entry.partition, entry.bucket))
    assert any("is compacting it" in wait.why for wait in table.health().waits)
    leases_of(table.logical).release(lease)
    assert table.health().waits == ()


def test_no_data_file_is_opened(tmp_path, monkeypatch) -> None:
    table = plain(tmp_path)
    for number in range(6):
        write(table, number)
    io = type(table.logical.io)
    read, opened = io.read, []

    def noticed(self: object, path: str) -> bytes:
        opened.append(path)
        return read(self, path)

    monkeypatch.setattr(io, "read", noticed)
    monkeypatch.setattr(io, "open_input", lambda self, path: opened.append(path))
    assert lakelog.connect(warehouse=str(tmp_path / "warehouse")).table("db.t").health().needs
    assert opened
    assert [path for path in opened if "/bucket-" in path] == []


def test_the_command_shows_all_tables_or_one_with_its_reasons(tmp_path) -> None:
    table = plain(tmp_path)
    for number in range(5):
        write(table, number)
    where = ["--warehouse", str(tmp_path / "warehouse")]
    done = CliRunner().invoke(health, where)
    assert done.exit_code == 0, done.output
    assert "db.t" in done.output and "compaction" in done.output
    one = CliRunner().invoke(health, ["db.t", *where])
    assert "a compaction starts at 5" in one.output and "lakelog compact db.t --minor" in one.output
    (line,) = CliRunner().invoke(health, ["--format", "jsonl", *where]).output.splitlines()
    assert json.loads(line)["needs"][0]["kind"] == "compaction"


KEY, VECTORS = ", primary key (id)", ", 'deletion-vectors.enabled' = 'true'"


@pytest.mark.parametrize(("key", "more"), [(KEY, ""), ("", ""), (KEY, VECTORS)])
def test_a_number_of_rows_is_exact_or_says_that_it_counts_versions(tmp_path, key: str, more: str) -> None:
    table = plain(tmp_path, more, key)
    for number in range(3):
        write(table, number, number + 1)
        stats = table.health().figures
        if stats.rows_unit == "rows":
            assert stats.rows == table.scan().count()
        else:
            assert stats.rows_unit == "row versions" and stats.rows >= table.scan().count()
    table.compact()
    stats = table.health().figures
    assert (stats.rows, stats.rows_unit) == (table.scan().count(), "rows")

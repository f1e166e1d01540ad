"""Logs with ``log.content`` = changes: what statements append, what is refused, and who catches up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt, InvalidOption, InvalidRequest, Unavailable
from lakelog.io.journal import Journal
from lakelog.io.storage.file_io import FileStatus
from lakelog.lake.table import Table
from lakelog.options.option import Options
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.sql.runtime.describe import describe
from lakelog.table.health.actions import HEALING, plan_actions
from lakelog.table.health.collect import collect_table_stats
from lakelog.table.maintenance import publish
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.model.published_links import PublishedLink, PublishedLinks
from lakelog.table.write.overwrite import OverwriteWriter

SUM = "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'"


def make(tmp_path: Path, options: str = SUM, key: str = ", primary key (p, id)") -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (p int, id int, n int{key}) using lakelog partitioned by (p) tblproperties "
        f"('log-store.enabled' = 'true', 'bucket' = '1', {options})"
    )
    return lake.table("db.t")


def arrow(*rows: tuple[int, int, int]) -> pa.Table:
    p, numbers, n = (pa.array(column, pa.int32()) for column in zip(*rows, strict=True))
    return pa.table({"p": p, "id": numbers, "n": n})


def write(table: Table, *rows: tuple[int, int, int]) -> None:
    table.write(arrow(*rows))


def told(table: Table, start: Any = "earliest") -> list[tuple[Any, ...]]:
    tail = table.tail(start, stop="latest")
    return [(r.pop("_row_kind"), *r.values()) for batch in tail for r in batch.to_pylist()]


def overwrite(table: Table) -> None:
    with OverwriteWriter(table.logical, overwrite_target(table.logical, {"p": 1})) as writer:
        writer.write(arrow((1, 1, 7), (1, 9, 9)))


def forward(table: Table) -> None:
    table.create_branch("b", snapshot_id=1)
    table.fast_forward("b")


STATEMENTS: dict[str, tuple[Callable[[Table], object], list[tuple[Any, ...]]]] = {
    "overwrite": (overwrite, [("-U", 1, 1, 3), ("+U", 1, 1, 7), ("-D", 1, 2, 1), ("+I", 1, 9, 9)]),
    "truncate": (Table.truncate, [("-D", 1, 1, 3), ("-D", 1, 2, 1), ("-D", 2, 1, 5)]),
    "drop partition": (lambda t: t.drop_partitions([{"p": 2}]), [("-D", 2, 1, 5)]),
    "roll back": (lambda t: t.rollback_to(1), [("-U", 1, 1, 3), ("+U", 1, 1, 1)]),
    "fast-forward": (forward, [("-U", 1, 1, 3), ("+U", 1, 1, 1)]),
    "compact": (Table.compact, []),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_appends_its_exact_changes(tmp_path: Path, name: str) -> None:
    table = make(tmp_path)
    write(table, (1, 1, 1), (1, 2, 1), (2, 1, 5))
    write(table, (1, 1, 2))
    before = len(told(table))
    statement, wanted = STATEMENTS[name]
    statement(table)
    assert sorted(told(table)[before:]) == sorted(wanted)


def test_rows_that_an_overwrite_keeps_are_no_changes_of_a_table_without_a_key(tmp_path: Path) -> None:
    table = make(tmp_path, "'log.content' = 'changes', 'bucket-key' = 'id'", key="")
    write(table, (1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 3, 3))
    before = len(told(table))
    with OverwriteWriter(table.logical, overwrite_target(table.logical, {"p": 1})) as writer:
        writer.write(arrow((1, 1, 1), (1, 5, 5)))
    assert sorted(told(table)[before:]) == [("+I", 1, 5, 5), ("-D", 1, 1, 1), ("-D", 1, 2, 2)]


def test_rows_of_a_first_row_table_are_emitted_when_a_read_shows_them(tmp_path: Path) -> None:
    table = make(tmp_path, "'merge-engine' = 'first-row'")
    write(table, (1, 1, 1))
    write(table, (1, 1, 2), (1, 2, 2))
    assert sorted(told(table)) == [("+I", 1, 1, 1), ("+I", 1, 2, 2)]


def test_the_next_commit_appends_the_records_missed_during_an_outage_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    write(table, (1, 1, 1))

    def away(*_: Any) -> Any:
        raise Unavailable("the log is away")

    with monkeypatch.context() as patched:
        patched.setattr(publish, "appender_of", away)
        write(table, (1, 1, 1))
        assert table.scan().to_arrow().column("n").to_pylist() == [2]
        assert told(table) == [("+I", 1, 1, 1)]
        with pytest.raises(Unavailable, match="the log is away"):
            table.seal()
    write(table, (1, 1, 1))
    assert told(table) == [("+I", 1, 1, 1), ("-U", 1, 1, 1), ("+U", 1, 1, 3)]
    assert told(table, "latest-full") == [("+I", 1, 1, 3)]


@pytest.mark.parametrize("age_ms", [60_000, -60_000], ids=["of the past", "of a clock that was ahead"])
def test_maintenance_appends_missing_changes_and_health_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ms: int
) -> None:
    table = make(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(publish, "publish", lambda _: False)
        write(table, (1, 1, 1))
    assert told(table) == []
    stats = collect_table_stats(table.logical)
    now = table.logical.store.latest_snapshot().time_millis + age_ms  # type: ignore[union-attr]
    assert "are not in the log" in plan_actions(stats, Options(table.logical.schema.options), now)[0].reason
    run_action(table.logical, HEALING, RunContext(lambda: False))
    assert told(table) == [("+I", 1, 1, 1)]
    found = plan_actions(collect_table_stats(table.logical), Options(table.logical.schema.options), now)
    assert HEALING not in [action.kind for action in found]


def test_snapshots_that_the_log_has_not_got_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, f"{SUM}, 'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1'")
    write(table, (1, 1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(publish, "publish", lambda _: False)
        for _ in range(4):
            write(table, (1, 1, 1))
        link = PublishedLinks.of(table.logical).last()
        assert link.snapshot in table.logical.store.snapshots.chain_ids()
    table.seal()
    assert told(table)[1:] == [("-U", 1, 1, 1), ("+U", 1, 1, 5)]
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert len(table.logical.store.snapshots.chain_ids()) == 1


def test_a_log_of_changes_stops_if_its_snapshot_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    write(table, (1, 1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(publish, "publish", lambda _: False)
        write(table, (1, 1, 1))
    store = table.logical.store
    store.io.delete(store.paths.snapshot(1))
    with pytest.raises(Corrupt, match="adds up to snapshot 1, which no longer exists"):
        table.seal()
    write(table, (1, 1, 1))
    assert table.scan().to_arrow().column("n").to_pylist() == [3]


def test_a_publisher_that_is_suspended_until_another_table_has_the_name_does_not_stop_it(tmp_path: Path) -> None:
    links = PublishedLinks.of(make(tmp_path).logical)
    connect(warehouse=str(tmp_path / "warehouse")).sql("drop table db.t")
    table = make(tmp_path)
    links.create(PublishedLink(number=1, snapshot=5, attempt="a", firsts={0: 1}))
    write(table, (1, 1, 1))
    assert told(table) == told(table, "latest-full") == [("+I", 1, 1, 1)]


def test_what_contradicts_a_log_of_changes_is_refused_by_name(tmp_path: Path) -> None:
    table = make(tmp_path)
    for options in ({"emit.mode": "log"}, {"emit.mode": "file"}, {"change-tracking": "false"}):
        (key,) = options
        writer = table.writer(options=options)
        with pytest.raises(InvalidOption, match=f"'{key}' = .* does not go with 'log.content' = 'changes'"):
            writer.write(arrow((1, 1, 1)))
    with pytest.raises(InvalidRequest, match="cannot be written to the log first"):
        list(table.follow(stop="latest"))
    rows = {name: value for name, value, _ in describe(table.logical, extended=True)}
    assert rows["log content"] == "changes" and rows["changelog mode"] == "all"


def test_links_that_are_forgotten_during_a_listing_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    write(table, (1, 1, 1))
    links, stalled = PublishedLinks.of(table.logical), Journal.files

    def files(self: Journal) -> dict[int, FileStatus]:
        found = stalled(self)
        monkeypatch.setattr(Journal, "files", stalled)
        for _ in range(2):
            write(table, (1, 1, 1))
        return found

    monkeypatch.setattr(Journal, "files", files)
    found = links.last()
    assert found == links.last() and found.snapshot == 3


def test_a_table_rolls_back_to_a_tag_whose_snapshot_has_expired(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, (1, 1, 1))
    table.create_tag("first")
    for _ in range(2):
        write(table, (1, 1, 1))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.rollback_to(tag="first")
    assert table.scan().to_arrow().column("n").to_pylist() == [1]
    assert told(table)[-2:] == [("-U", 1, 1, 3), ("+U", 1, 1, 1)]
    write(table, (1, 1, 1))
    assert told(table, "latest-full") == [("+I", 1, 1, 2)]


def test_a_retraction_of_a_key_that_is_not_there_is_a_row_after_a_compaction_with_lookups(tmp_path: Path) -> None:
    """Paimon folds the only row of a key, too, if compactions look up the old values."""
    table = make(tmp_path, f"{SUM}, 'changelog-producer' = 'lookup'")
    table.write(arrow((1, 1, 5)).append_column("_row_kind", pa.array(["-D"])))
    assert table.scan().to_arrow().to_pylist() == [{"p": 1, "id": 1, "n": -5}]
    assert told(table) == [("+I", 1, 1, -5)]
    write(table, (1, 1, 7))
    assert told(table) == [("+I", 1, 1, -5), ("-U", 1, 1, -5), ("+U", 1, 1, 2)]

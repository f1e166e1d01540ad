"""What a table needs by its statistics: pure, with a time that is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.options.option import Options
from lakelog.table.health.actions import KINDS, find_blockers, plan_actions
from lakelog.table.health.score import score_parts, total
from lakelog.table.health.stats import (
    BATCH,
    STREAM,
    BucketStats,
    LogBucketStats,
    LogStats,
    SnapshotStats,
    TableStats,
    WriterStats,
)

DAY = 24 * 3_600_000
NOW = 1_000 * DAY
HOUR = 3_600_000
NEW = SnapshotStats(newest_id=5, newest_ms=NOW, kept=5, created_ms=NOW)
KEYED = TableStats("db.t", NOW, is_keyed=True, snapshots=NEW)


def bucket(runs: int, due: int = 0, number: int = 0, level0: int = 0) -> BucketStats:
    return BucketStats("{}", number, runs, 1000 * runs, 10 * runs, runs, level0, runs, due, 1000 * due)


def needs(stats: TableStats, **options: str) -> dict[str, object]:
    return {need.kind: need for need in plan_actions(stats, Options(options), NOW)}


def waits(stats: TableStats, **options: str) -> list[str]:
    return [f"{w.what}: {w.why} -> {w.what_to_do}" for w in find_blockers(stats, Options(options), NOW)]


def test_a_table_that_is_well_needs_nothing() -> None:
    healthy = replace(KEYED, buckets=(bucket(3),), log=LogStats((LogBucketStats(0, 0, 9, 9, 9, 0),)))
    assert needs(healthy) == {}
    assert waits(healthy) == []
    assert total(score_parts(healthy, Options(), NOW)) == 100


def test_the_more_sorted_runs_the_more_urgent_and_most_when_writers_wait_or_rows_cannot_be_seen() -> None:
    at = [needs(replace(KEYED, buckets=(bucket(1), bucket(runs, runs))))["compaction"].urgency for runs in (5, 6, 7, 8)]
    assert at == [50, 55, 60, 80]
    found = needs(replace(KEYED, buckets=(bucket(8, 7),)))["compaction"]
    assert (
        found.reason == "1 of 1 bucket due, the fullest has 8 sorted runs (a compaction starts at 5): 7 files, 7.0 kB"
    )
    assert found.bytes == 7000
    unseen = replace(KEYED, buckets=(bucket(2, 2, level0=1),))
    assert needs(unseen, **{"deletion-vectors.enabled": "true"})["compaction"].urgency == 85
    assert "db.t --minor" in found.what_to_do


def test_a_bucket_under_compaction_is_no_need() -> None:
    held = replace(bucket(9, 9), compactor="host, process 7")
    assert needs(replace(KEYED, buckets=(held,))) == {}
    (need,) = needs(replace(KEYED, buckets=(held, bucket(5, 5, number=1)))).values()
    assert need.urgency == 50 and need.bytes == 5000


def test_expiry_partitions_tags_and_a_full_compaction_come_from_the_history() -> None:
    history = replace(NEW, kept=70, expirable=50, old_partitions=2, tags_over=1, full_compaction_due=True)
    found = needs(replace(KEYED, snapshots=history))
    assert list(found) == ["full-compaction", "expiry", "partition-expiry", "tag-expiry"]
    assert found["expiry"].reason.startswith("at least 50 of 70 snapshots")
    few = needs(replace(KEYED, snapshots=replace(NEW, kept=70, expirable=10)))
    assert few["expiry"].urgency == 33
    assert few["expiry"].reason.startswith("10 of 70 snapshots")
    rest = replace(NEW, newest_ms=NOW - HOUR, expirable=9)
    assert needs(replace(KEYED, snapshots=replace(rest, newest_ms=NOW))) == {}, "more will come"
    assert list(needs(replace(KEYED, snapshots=rest))) == ["expiry"]
    begun = needs(replace(KEYED, snapshots=replace(NEW, unfinished_removals=1)))
    assert begun["expiry"].reason == "1 unfinished file removal"


def test_orphan_cleaning_is_due_at_intervals() -> None:
    old = replace(KEYED, snapshots=replace(NEW, created_ms=NOW - 8 * DAY))
    assert "never cleaned" in needs(old)["orphan-cleaning"].reason
    assert needs(old, **{"optimizer.orphan-interval": "9 d"}) == {}
    assert needs(old, **{"optimizer.orphan-interval": "0 s"}) == {}
    cleaned = replace(old, snapshots=replace(old.snapshots, orphans_cleaned_ms=NOW - 6 * DAY))
    assert needs(cleaned) == {}
    assert (
        "7 d ago"
        in needs(replace(cleaned, snapshots=replace(NEW, orphans_cleaned_ms=NOW - 7 * DAY)))["orphan-cleaning"].reason
    )


def test_a_dead_batch_writer_is_most_urgent_and_an_active_one_is_waited_for() -> None:
    at_work = WriterStats("w1", BATCH, -1, -1, 0, NOW - 5000, undecided_ms=NOW - 5000)
    both = LogStats(writers=(at_work, replace(at_work, name="w2", is_gone=True)))
    stats = replace(KEYED, buckets=(bucket(9, 9),), log=both)
    found = plan_actions(stats, Options(), NOW)
    assert [need.kind for need in found] == ["healing", "compaction"]
    assert "1 dead writer" in found[0].reason and "(w2)" in found[0].reason
    waiting = waits(stats)
    assert any(w.startswith("the rows of batch writer w1: it began 5 s ago") for w in waiting)
    assert not any("w2" in w for w in waiting)


def test_decided_epochs_of_a_dead_writer_are_sealed_and_those_of_a_live_one_reported() -> None:
    late = WriterStats("q", STREAM, 4, 3, 1, NOW - 2 * HOUR, waiting_ms=NOW - HOUR // 2, is_alive=False)
    assert (
        "1 dead writer decided rows that wait for their snapshot (q)"
        in needs(replace(KEYED, log=LogStats(writers=(late,))))["healing"].reason
    )
    soon = replace(KEYED, log=LogStats(writers=(replace(late, is_alive=True),)))
    assert needs(soon) == {}
    assert any("the snapshot of 1 epoch of stream writer q" in w and "30 min ago" in w for w in waits(soon))


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        (
            replace(KEYED, buckets=(replace(bucket(9, 9), compactor="host, process 7"),)),
            ["compaction of bucket 0:", "process 7"],
        ),
        (replace(KEYED, snapshots=replace(NEW, held=4, holder="slow")), ["4 snapshots", "'slow'", "reset_consumer"]),
        (
            replace(KEYED, buckets=(bucket(8, 8),), log=LogStats()),
            ["snapshots of streaming writers", "8 sorted runs", "compact db.t --minor"],
        ),
        (
            replace(KEYED, log=LogStats(writers=(WriterStats("q", STREAM, 3, 3, 0, NOW - 3 * HOUR),))),
            ["writer q", "3 h", "end_writer('db.t', 'q')"],
        ),
        (
            replace(KEYED, log=LogStats((LogBucketStats(0, 0, 9, 9, 5, 4, unowned=4),))),
            ["log-first rows", "lakelog follow db.t"],
        ),
    ],
)
def test_what_waits_says_why_and_what_to_do(stats: TableStats, words: list[str]) -> None:
    (found,) = waits(stats)
    assert [word for word in words if word not in found] == []


def test_a_table_that_the_optimizer_leaves_alone_says_so() -> None:
    (found,) = waits(KEYED, **{"optimizer.enabled": "false"})
    assert "'optimizer.enabled' = 'false'" in found
    assert waits(KEYED, **{"self-optimizing.enabled": "false"}) == [found]


def test_a_table_that_lakelog_must_not_write_is_left_to_its_engine() -> None:
    ill = replace(KEYED, buckets=(bucket(9, 9),), snapshots=replace(NEW, expirable=50))
    assert len(needs(ill)) == 2
    assert needs(ill, **{"row-tracking.enabled": "true"}) == {}
    (found,) = waits(ill, **{"row-tracking.enabled": "true"})
    assert "row-tracking.enabled" in found and "the engine that writes" in found


def test_the_score_falls_with_each_of_its_parts_and_says_why() -> None:
    log = LogStats((LogBucketStats(0, 0, 9, 9, 5, 4, waiting_ms=NOW - 10 * HOUR),))
    gone = WriterStats("w", BATCH, -1, -1, 0, NOW, is_gone=True)
    ill = replace(
        KEYED,
        buckets=(bucket(20, 20), bucket(4, number=1)),
        snapshots=replace(NEW, expirable=50, created_ms=NOW - 30 * DAY),
        log=replace(log, writers=(gone,) * 3),
    )
    parts = score_parts(ill, Options(), NOW)
    assert [(p.name, p.points, p.of) for p in parts] == [
        ("files", 20.0, 40),
        ("freshness", 0.0, 30),
        ("writers", 0.0, 15),
        ("history", 0.0, 15),
    ]
    assert all(part.why for part in parts)
    assert total(parts) == 20
    fresh = replace(log, buckets=(replace(log.buckets[0], waiting_ms=NOW - 5000),))
    assert score_parts(replace(KEYED, log=fresh), Options(), NOW)[1].points == 30


def test_each_need_has_a_name_of_its_own() -> None:
    assert len(set(KINDS)) == 7

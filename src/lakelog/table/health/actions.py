"""The actions that a table needs, with reason and urgency; and its blockers with their remedies. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.io.quantities import counted, format_bytes, format_duration
from lakelog.merge.table_rules import check_writable, needs_lookup
from lakelog.options.compaction import STOP_TRIGGER
from lakelog.options.log import COMMIT_INTERVAL, ON_BAD_RECORD, WRITER_TIMEOUT
from lakelog.options.optimizer import OPTIMIZER_ENABLED, ORPHAN_INTERVAL
from lakelog.options.option import Options
from lakelog.options.retention import SNAPSHOT_EXPIRE_LIMIT
from lakelog.options.table import COMPACTION_TRIGGER
from lakelog.table.health.commands import call_statement, shell_command, table_in_sql
from lakelog.table.health.stats import STREAM, LogStats, TableStats

HEALING: Final = "healing"
COMPACTION: Final = "compaction"
FULL_COMPACTION: Final = "full-compaction"
EXPIRY: Final = "expiry"
PARTITION_EXPIRY: Final = "partition-expiry"
TAG_EXPIRY: Final = "tag-expiry"
ORPHAN_CLEANING: Final = "orphan-cleaning"
KINDS: Final = (HEALING, COMPACTION, FULL_COMPACTION, EXPIRY, PARTITION_EXPIRY, TAG_EXPIRY, ORPHAN_CLEANING)
"""Every kind of maintenance, approximately in order of urgency."""

_URGENCIES: Final = {
    HEALING: 90,
    COMPACTION: 50,
    FULL_COMPACTION: 45,
    EXPIRY: 30,
    PARTITION_EXPIRY: 25,
    TAG_EXPIRY: 20,
    ORPHAN_CLEANING: 10,
}
_INVISIBLE: Final = 85
"""Urgency of a compaction that makes new rows visible."""
_STOPPED: Final = 80
"""Urgency of a compaction that streaming writers wait for."""
_FEW: Final = 10
_IDLE_MS: Final = 600_000
"""Age of the newest snapshot after which the table is at rest, and even a small expiry is worthwhile."""
_LATE: Final = 3
"""Commit intervals after which an epoch without a snapshot, or a row outside the files, is late."""
_PUBLISHES_MS: Final = 10_000
"""Minimum age of changes that are not in a log of changes before they are late."""


@dataclass(frozen=True)
class Action:
    """A run of maintenance that would be useful now. ``urgency``: 1 to 100, the highest first.

    ``bytes`` is the number of bytes to read, as far as known.
    """

    kind: str
    reason: str
    what_to_do: str
    urgency: int
    bytes: int = 0


@dataclass(frozen=True)
class Blocker:
    """A blocked part of a table, with the cause and the remedy."""

    what: str
    why: str
    what_to_do: str


def plan_actions(stats: TableStats, options: Options, now_ms: int) -> tuple[Action, ...]:
    """The actions for a table's metrics and options, the most urgent first; none if lakelog must not write it.

    Pure.
    """
    if _refusal(options):
        return ()
    kinds = (_healing, _compaction, _full_compaction, _expiry, _partitions, _tags, _orphans)
    needs = [need for pick in kinds if (need := pick(stats, options, now_ms)) is not None]
    return tuple(sorted(needs, key=lambda need: -need.urgency))


def _healing(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    if stats.log is None:
        return None
    dead = [w for w in stats.log.writers if w.is_gone]
    late = [w for w in stats.log.writers if not w.is_gone and not w.is_alive and w.waiting_ms is not None]
    interval = options.need(COMMIT_INTERVAL).total_seconds()
    since_ms = stats.log.unpublished_ms
    # a snapshot of the future has no age: a clock was wrong, and each later snapshot has the time of that one at least
    waits = since_ms is not None and abs(now_ms - since_ms) > max(_ms(_LATE * interval), _PUBLISHES_MS)
    if not dead and not late and not waits:
        return None
    reasons = []
    if since_ms is not None and waits:
        reasons.append(f"changes of {format_duration(max(0, now_ms - since_ms))} ago are not in the log")
    if dead:
        reasons.append(f"{counted(len(dead), 'dead writer')} left an unfinished write in the log")
    if late:
        reasons.append(f"{counted(len(late), 'dead writer')} decided rows that wait for their snapshot")
    names = f" ({', '.join(w.name for w in (*dead, *late)[:3])})" if dead or late else ""
    return _need(HEALING, f"{'; '.join(reasons)}{names}", _by_optimizer(stats.name, HEALING))


def _compaction(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    due = stats.due
    if not due:
        return None
    worst, size = due[0], sum(b.due_bytes for b in due)
    files = counted(sum(b.due_files for b in due), "file")
    where = f"{len(due)} of {counted(len(stats.buckets), 'bucket')}"
    to_do = shell_command("compact", stats.name, "--minor")
    if not stats.is_keyed:
        reason = f"{where} with small files or many deleted rows: {files}, {format_bytes(size)}"
        return _need(COMPACTION, reason, to_do, _URGENCIES[COMPACTION] - 5 + min(20, worst.due_files // 5), size)
    trigger = options.need(COMPACTION_TRIGGER)
    reason = f"{where} due, the fullest has {worst.sorted_runs} sorted runs (a compaction starts at {trigger}): {files}"
    urgency = _URGENCIES[COMPACTION] + min(25, 5 * max(0, worst.sorted_runs - trigger))
    if worst.sorted_runs >= stop_trigger(options):
        urgency = _STOPPED
    if needs_lookup(options) and stats.level0_files:
        reason = f"{counted(stats.level0_files, 'new file')} are invisible to readers until compacted"
        urgency = _INVISIBLE
    return _need(COMPACTION, f"{reason}, {format_bytes(size)}", to_do, urgency, size)


def _full_compaction(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    if not stats.snapshots.full_compaction_due:
        return None
    reason = "a full compaction is due by the table's options"
    return _need(FULL_COMPACTION, reason, shell_command("compact", stats.name), size=stats.bytes)


def _expiry(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    history = stats.snapshots
    of_log = stats.log is not None and stats.log.expirable
    old = "the log has records older than its retention"
    if not history.expirable and not history.unfinished_removals:
        return _need(EXPIRY, old, _by_optimizer(stats.name, EXPIRY)) if of_log else None
    limit = options.need(SNAPSHOT_EXPIRE_LIMIT)
    is_idle = now_ms - (history.newest_ms or 0) > _IDLE_MS
    if history.expirable < min(_FEW, limit) and not is_idle and not history.unfinished_removals and not of_log:
        return None
    more = "at least " if history.expirable >= limit else ""
    reason = f"{more}{history.expirable} of {counted(history.kept, 'snapshot')} exceed the table's retention"
    if not history.expirable:
        reason = f"{counted(history.unfinished_removals, 'unfinished file removal')}"
    to_do = shell_command("expire", stats.name)
    if of_log:
        reason, to_do = f"{reason}; {old}", _by_optimizer(stats.name, EXPIRY)
    urgency = _URGENCIES[EXPIRY] + min(15, 15 * history.expirable // max(1, limit))
    return _need(EXPIRY, reason, to_do, urgency)


def _partitions(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    old = stats.snapshots.old_partitions
    reason = f"{counted(old, 'partition')} older than 'partition.expiration-time'"
    to_do = call_statement("expire_partitions", stats.name)
    return _need(PARTITION_EXPIRY, reason, to_do) if old else None


def _tags(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    over = stats.snapshots.tags_over
    reason = f"{counted(over, 'tag')} past their retention"
    return _need(TAG_EXPIRY, reason, call_statement("expire_tags", stats.name)) if over else None


def _orphans(stats: TableStats, options: Options, now_ms: int) -> Action | None:
    every = _ms(options.need(ORPHAN_INTERVAL).total_seconds())
    last = stats.snapshots.orphans_cleaned_ms
    since = stats.snapshots.created_ms if last is None else last
    if not every or now_ms - since < every:
        return None
    when = f"orphan files were last cleaned {format_duration(now_ms - since)} ago"
    if last is None:
        when = f"orphan files were never cleaned; the table was created {format_duration(now_ms - since)} ago"
    return _need(ORPHAN_CLEANING, when, call_statement("remove_orphan_files", stats.name))


def find_blockers(stats: TableStats, options: Options, now_ms: int) -> tuple[Blocker, ...]:
    """The blocked parts of a table and their causes. Pure."""
    return tuple(_waits(stats, options, now_ms))


def _waits(stats: TableStats, options: Options, now_ms: int) -> Iterator[Blocker]:
    history, name = stats.snapshots, stats.name
    if not options.need(OPTIMIZER_ENABLED):
        to_do = (
            f"ALTER TABLE {table_in_sql(name)} SET TBLPROPERTIES ('{OPTIMIZER_ENABLED.key}' = 'true'), or run the "
            "commands yourself"
        )
        yield Blocker("maintenance by lakelog optimize", f"'{OPTIMIZER_ENABLED.key}' = 'false'", to_do)
    if refusal := _refusal(options):
        yield Blocker("all maintenance", refusal, "leave it to the engine that writes the table")
    for bucket in (bucket for bucket in stats.buckets if bucket.compactor):
        where = f"compaction of bucket {bucket.bucket}" + (
            f" of {bucket.partition}" if bucket.partition != "{}" else ""
        )
        yield Blocker(where, f"{bucket.compactor} is compacting it", "nothing: its lease ends a minute after it does")
    if history.held:
        yield Blocker(
            f"expiry of {counted(history.held, 'snapshot')}",
            f"consumer '{history.holder}' has not read them yet",
            f"let it continue, or {call_statement('reset_consumer', name, history.holder)}, or set "
            "'consumer.expiration-time'",
        )
    stop = stop_trigger(options)
    if stats.is_keyed and stats.log is not None and stats.most_runs >= stop:
        why = f"a bucket has {stats.most_runs} sorted runs, 'num-sorted-run.stop-trigger' is {stop}"
        yield Blocker(
            "snapshots of streaming writers",
            why,
            f"{shell_command('compact', name, '--minor')}; the log still accepts rows",
        )
    if stats.log is not None:
        yield from _log_waits(name, stats.log, options, now_ms)


def _log_waits(name: str, log: LogStats, options: Options, now_ms: int) -> Iterator[Blocker]:
    timeout, interval = options.need(WRITER_TIMEOUT).total_seconds(), options.need(COMMIT_INTERVAL).total_seconds()
    late = _ms(_LATE * interval)
    for writer in log.writers:
        if writer.waiting_ms is not None and now_ms - writer.waiting_ms > late and not writer.is_gone:
            yield Blocker(
                f"the snapshot of {counted(writer.waiting, 'epoch')} of {writer.kind} writer {writer.name}",
                f"the writer decided the oldest {format_duration(now_ms - writer.waiting_ms)} ago and has made no "
                "snapshot since",
                f"restart it, or call Table.seal(); lakelog optimize does so {format_duration(_ms(timeout))} after its "
                "death",
            )
        if writer.undecided_ms is not None and not writer.is_gone:
            yield Blocker(
                f"the rows of batch writer {writer.name}",
                f"it began {format_duration(now_ms - writer.undecided_ms)} ago and has not committed",
                f"nothing while it runs; if it does not renew its lease for {format_duration(_ms(timeout))}, it counts "
                "as dead and its rows are aborted",
            )
        if writer.kind == STREAM and writer.waiting_ms is None and now_ms - writer.active_ms > _ms(timeout):
            yield Blocker(
                f"the open epoch of streaming writer {writer.name}, if it has one",
                f"it has committed nothing for {format_duration(now_ms - writer.active_ms)}",
                "nothing while its source is quiet; otherwise restart it, or if it will never restart: "
                f"{call_statement('end_writer', name, writer.name)}",
            )
    if log.bad_records:
        which = f"{', '.join(log.bad_records[:3])}{', …' if len(log.bad_records) > 3 else ''}"
        yield Blocker(
            "readers of the log that do not skip bad records",
            f"{counted(len(log.bad_records), 'record')} cannot be read (bucket-offset {which})",
            f"fix the producer, and read with '{ON_BAD_RECORD.key}'='skip' until the log no longer holds them",
        )
    if log.unowned:
        what = f"{counted(log.unowned, 'log-first row')}"
        yield Blocker(what, "a follower has not written them to files yet", shell_command("follow", name))


def _refusal(options: Options) -> str:
    """The reason why lakelog must not change the table; empty if it may."""
    try:
        check_writable(options)
    except InvalidRequest as why:
        return str(why)
    return ""


def stop_trigger(options: Options) -> int:
    """The number of sorted runs in a bucket at which streaming writers make no snapshots."""
    trigger, most = options.need(COMPACTION_TRIGGER), options.get_typed(STOP_TRIGGER)
    return max(trigger, trigger + 3 if most is None else most)


def _need(kind: str, reason: str, to_do: str, urgency: int | None = None, size: int = 0) -> Action:
    return Action(kind, reason, to_do, _URGENCIES[kind] if urgency is None else urgency, size)


def _by_optimizer(name: str, kind: str) -> str:
    return shell_command("optimize", name, "--once", "--only", kind)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)

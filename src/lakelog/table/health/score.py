"""Findings about a table and its health score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.io.quantities import counted, format_bytes, format_duration
from lakelog.options.log import COMMIT_INTERVAL, EMIT_MODE, READ_MODE
from lakelog.options.optimizer import ORPHAN_INTERVAL
from lakelog.options.option import Options
from lakelog.options.retention import SNAPSHOT_EXPIRE_LIMIT
from lakelog.options.table import COMPACTION_MIN_FILES, COMPACTION_TRIGGER
from lakelog.table.health.actions import HEALING, Action
from lakelog.table.health.commands import call_statement, shell_command, table_in_sql
from lakelog.table.health.stats import (
    DROPPED,
    ENDED,
    FAILED,
    IngestStats,
    LogStats,
    ReplicaStats,
    TableStats,
    ViewStats,
)
from lakelog.table.views.sources import DROPPED as SOURCE_DROPPED
from lakelog.table.views.sources import REPLACED

_FILES, _FRESHNESS, _WRITERS, _HISTORY = 40, 30, 15, 15
_LEAST_LATE_MS = 10_000
_WITH_FINDINGS = 20
_ENDED_MS = 2 * 24 * 3_600_000
"""Age of the end of an ingest from which on its slot is taken for forgotten."""
_VIEW_LATE_MS = 30_000
"""Time that a refresh may take beyond the interval of its view."""
_REPLICA_LATE_MS = 30_000
"""Lag of a replica from which on it is a finding."""
_FREE_SPACE = "free space on the disk: expire snapshots, shorten 'log-store.retention', or move other files away"
_AT_RISK = ("unreserved", "lost")
"""States of a slot whose WAL the server may remove, or has removed."""
DEAD_WRITER: Final = "dead-writer"
STORES_DIFFER: Final = "stores-differ"
LOG_UNREACHABLE: Final = "log-unreachable"
UNREADABLE: Final = "unreadable"
DEAD_RUN: Final = "dead-run"
REJECTED_ROWS: Final = "rejected-rows"
INGEST_STOPPED: Final = "ingest-stopped"
SLOT_AT_RISK: Final = "slot-at-risk"
INGEST_UNDONE: Final = "ingest-undone"
ONLY_IN_LOG: Final = "only-in-log"
LOG_AHEAD: Final = "log-ahead"
LOW_SPACE: Final = "low-space"
VIEW_SOURCE: Final = "view-source"
VIEW_FAILED: Final = "view-failed"
VIEW_BEHIND: Final = "view-behind"
VIEW_SUSPENDED: Final = "view-suspended"
VIEW_MISSING: Final = "view-missing"
REPLICA_BEHIND: Final = "replica-behind"
FINDINGS: Final = (
    UNREADABLE, STORES_DIFFER, LOW_SPACE, DEAD_WRITER, LOG_UNREACHABLE, SLOT_AT_RISK, INGEST_UNDONE,
    INGEST_STOPPED, REPLICA_BEHIND, VIEW_SOURCE, VIEW_FAILED, VIEW_BEHIND, DEAD_RUN, ONLY_IN_LOG, LOG_AHEAD,
    VIEW_SUSPENDED, VIEW_MISSING, REJECTED_ROWS,
)  # fmt: skip
"""Every kind, the worst first."""


@dataclass(frozen=True)
class ScorePart:
    """One part of the score: ``points`` of at most ``of``, and the reason."""

    name: str
    points: float
    of: int
    why: str


def score_parts(stats: TableStats, options: Options, now_ms: int) -> tuple[ScorePart, ...]:
    """The parts of the score; together 0 to 100."""
    return (
        _files(stats, options),
        _freshness(stats, options, now_ms),
        _writers(stats),
        _history(stats, options, now_ms),
    )


def total(parts: tuple[ScorePart, ...], has_findings: bool = False) -> int:
    """The score."""
    score = round(sum(part.points for part in parts))
    return min(score, _WITH_FINDINGS) if has_findings else score


def _files(stats: TableStats, options: Options) -> ScorePart:
    limit = options.need(COMPACTION_TRIGGER if stats.is_keyed else COMPACTION_MIN_FILES)
    loads = [bucket.sorted_runs if stats.is_keyed else bucket.due_files for bucket in stats.buckets]
    # a bucket with a key rests at the trigger if its runs are of very different sizes (``pick_runs``)
    good = limit if stats.is_keyed else limit - 1
    shares = [_linear_share(load, good, 4 * limit) for load in loads]
    share = sum(shares) / len(shares) if shares else 1.0
    what = "sorted run" if stats.is_keyed else "due file"
    return _part(
        "files",
        share,
        _FILES,
        f"{counted(max(loads, default=0), what)} in the fullest bucket; a compaction starts at {limit}",
    )


def _freshness(stats: TableStats, options: Options, now_ms: int) -> ScorePart:
    log = stats.log
    if log is None:
        return _part("freshness", 1.0, _FRESHNESS, "no log, or the log was skipped")
    if log.trouble:
        return _part("freshness", 0.0, _FRESHNESS, "unknown: the log cannot be read")
    if log.waiting_ms is None:
        rest = f"; {counted(log.log_only, 'row')} will be in no file" if log.log_only else ""
        return _part("freshness", 1.0, _FRESHNESS, f"no row of the log waits for the files{rest}")
    late = max(_LEAST_LATE_MS, 3 * options.need(COMMIT_INTERVAL).total_seconds() * 1000)
    age = max(0, now_ms - log.waiting_ms)
    why = f"the oldest row that waits for files is {format_duration(age)} old; up to {format_duration(late)} is normal"
    return _part("freshness", _linear_share(age, late, 10 * late), _FRESHNESS, why)


def _writers(stats: TableStats) -> ScorePart:
    if stats.log is not None and stats.log.trouble:
        return _part("writers", 0.0, _WRITERS, "unknown: the log cannot be read")
    dead = 0 if stats.log is None else sum(w.is_gone for w in stats.log.writers)
    return _part("writers", max(0.0, 1 - dead / 3), _WRITERS, counted(dead, "dead writer"))


def _history(stats: TableStats, options: Options, now_ms: int) -> ScorePart:
    history = stats.snapshots
    share = 1 - min(1.0, history.expirable / max(1, options.need(SNAPSHOT_EXPIRE_LIMIT))) / 2
    why = counted(history.expirable, "expirable snapshot")
    every = options.need(ORPHAN_INTERVAL).total_seconds() * 1000
    since = history.created_ms if history.orphans_cleaned_ms is None else history.orphans_cleaned_ms
    if every and now_ms - since > 2 * every:
        share -= 0.5
        why += f", orphan files not cleaned for {format_duration(now_ms - since)}"
    return _part("history", share, _HISTORY, why)


def _linear_share(value: float, good: float, bad: float) -> float:
    """1 up to ``good``, 0 from ``bad`` on, linear in between."""
    return min(1.0, max(0.0, (bad - value) / (bad - good)))


def _part(name: str, share: float, of: int, why: str) -> ScorePart:
    return ScorePart(name, round(max(0.0, share) * of, 1), of, why)


@dataclass(frozen=True)
class Finding:
    """One sentence, and the command that inspects or fixes it. ``kind`` is one of ``FINDINGS``.

    ``action`` is the kind of maintenance that fixes it, empty if none does. ``is_warning`` marks what does not limit
    the score, because the table does what its options say: rejected rows, rows that only the log has, a disk that is
    not full yet.
    """

    kind: str
    reason: str
    what_to_do: str
    action: str = ""
    is_warning: bool = False


def pick_findings(stats: TableStats, needs: Sequence[Action]) -> tuple[Finding, ...]:
    """The findings of a readable table, with its needs; the worst first. Pure."""
    findings = [*_of_log(stats.name, stats.log)] if stats.log is not None else []
    dead = stats.snapshots.dead_run
    if dead is not None and any(need.kind == dead.kind for need in needs):
        reason = f"the last {dead.kind} died (process {dead.process} on {dead.host}) and is still needed"
        findings.append(Finding(DEAD_RUN, reason, shell_command("optimize", stats.name, "--once"), dead.kind))
    if stats.undone and stats.view is None:  # the next refresh of a view compares all its rows
        findings.append(_undone(stats.name, stats.ingest))
    if stats.view is not None:
        findings += _of_view(stats.name, stats.view, stats.looked_ms)
    if stats.ingest is not None:
        findings += _of_ingest(stats.name, stats.ingest, stats.looked_ms)
    if stats.replica is not None and stats.replica.lag_ms(stats.looked_ms) > _REPLICA_LATE_MS:
        findings.append(_behind(stats.name, stats.replica, stats.looked_ms))
    for consumer, view in stats.missing_views:
        reason = f"consumer '{consumer}' keeps snapshots for the materialized view {view}, which is not there"
        to_do = call_statement("reset_consumer", stats.name, consumer)
        findings.append(Finding(VIEW_MISSING, reason, to_do, is_warning=True))
    if stats.rejected:
        reason = f"{counted(stats.rejected, 'row')} did not fit the table and wait in $rejected"
        findings.append(Finding(REJECTED_ROWS, reason, call_statement("replay_rejected", stats.name), is_warning=True))
    space = stats.space
    if space is not None and space.is_low:
        what = "writes fail without it" if space.is_full else "compactions write new files before they delete old ones"
        reason = f"the disk of the table has {format_bytes(space.free)} of free space: {what}"
        findings.append(Finding(LOW_SPACE, reason, _FREE_SPACE, is_warning=not space.is_full))
    return tuple(sorted(findings, key=lambda finding: FINDINGS.index(finding.kind)))


def _behind(name: str, replica: ReplicaStats, now_ms: int) -> Finding:
    why = f": {replica.error}" if replica.error else ""
    ago = format_duration(replica.lag_ms(now_ms))
    reason = f"the replica may lack what {replica.source} has committed in the last {ago}{why}"
    return Finding(REPLICA_BEHIND, reason, f"start lakelog replicate again, or {shell_command('promote', name)}")


def _undone(name: str, ingest: IngestStats | None) -> Finding:
    source = "a source" if ingest is None else ingest.source
    reason = (
        f"a rollback has taken changes of {source} out of the table that lakelog ingest had committed, and the server "
        "does not send them again"
    )
    to_do = "run lakelog ingest with --copy-again" if ingest is None else _ingest_command(name, ingest, "--copy-again")
    return Finding(INGEST_UNDONE, reason, to_do)


def _ingest_command(name: str, ingest: IngestStats, option: str) -> str:
    where = ("--tables", ingest.source, "--into", name.rpartition(".")[0], "--slot", ingest.slot)
    return shell_command("ingest", f"postgres://{ingest.server}", *where, option)


def _of_ingest(name: str, ingest: IngestStats, now_ms: int) -> Iterator[Finding]:
    status = _ingest_command(name, ingest, "--status")
    slot = f"slot '{ingest.slot}' of PostgreSQL {ingest.server}"
    if ingest.slot_state in _AT_RISK:
        what = "has lost" if ingest.slot_state == "lost" else "will soon lose"
        reason = f"{slot} {what} changes of {ingest.source}: the WAL that it needs exceeds max_slot_wal_keep_size"
        yield Finding(SLOT_AT_RISK, reason, status)
    age_ms = now_ms - ingest.reported_ms
    since = f"{format_duration(max(0, age_ms))} ago"
    if ingest.is_gone:
        host = ingest.machine.partition("/")[0]
        reason = (
            f"lakelog ingest of {ingest.source} has not reported since {since} (process {ingest.process} on {host})"
        )
    elif ingest.state == FAILED:
        reason = f"lakelog ingest of {ingest.source} failed {since}: {ingest.why}"
    elif ingest.state == ENDED and age_ms > _ENDED_MS and ingest.slot_state != DROPPED:
        reason = f"lakelog ingest of {ingest.source} ended {since}"
    else:
        return
    kept_wal = "" if ingest.slot_state == DROPPED else f"; {slot} makes the server keep its WAL"
    yield Finding(INGEST_STOPPED, f"{reason}{kept_wal}", status)


def _of_view(name: str, view: ViewStats, now_ms: int) -> Iterator[Finding]:
    """At most one finding about what keeps a view from its sources, and one if it is suspended."""
    written = table_in_sql(name)
    rebuild = f"ALTER MATERIALIZED VIEW {written} REBUILD"
    lost = [one for one in view.sources if one.state in (SOURCE_DROPPED, REPLACED)]
    report, lag_ms = view.report, view.lag_ms(now_ms)
    late = f"the view lacks changes of {format_duration(lag_ms)} ago" if lag_ms else "the view has all changes"
    broken = view.trouble or next((f"{one.name}: {one.why}" for one in view.sources if one.why), "")
    if lost:
        was = "was dropped and created again"
        if lost[0].state == SOURCE_DROPPED:
            was, rebuild = "was dropped", f"create it again, then {rebuild}, or DROP MATERIALIZED VIEW {written}"
        yield Finding(VIEW_SOURCE, f"source {lost[0].name} {was}: the view keeps the rows that it had", rebuild)
    elif broken:
        yield Finding(VIEW_FAILED, f"the position of the view cannot be compared: {broken}", _refresh(written))
    elif report is not None and report.error and report.failed_ms is not None:
        since = format_duration(max(0, now_ms - report.failed_ms))
        reason = f"the last refresh failed {since} ago, {late}: {report.error}"
        yield Finding(VIEW_FAILED, reason, _refresh(written))
    elif _is_late(view, lag_ms):
        reason = f"{late}, and is to be refreshed {view.refresh}: no process does that, or it is too slow"
        yield Finding(VIEW_BEHIND, reason, shell_command("view", "run", name))
    if view.suspended:
        to_do = f"ALTER MATERIALIZED VIEW {written} RESUME"
        yield Finding(VIEW_SUSPENDED, f"refreshes are suspended; {late}", to_do, is_warning=True)


def _is_late(view: ViewStats, lag_ms: int | None) -> bool:
    """True if a view is refreshed on its own, and lacks changes for longer than two intervals and some time more."""
    return (
        not view.suspended
        and view.every_ms is not None
        and lag_ms is not None
        and lag_ms > 2 * view.every_ms + _VIEW_LATE_MS
    )


def _refresh(written: str) -> str:
    return f"REFRESH MATERIALIZED VIEW {written}"


def unreadable(name: str, why: str) -> Finding:
    """The finding for a table that cannot be opened or read."""
    return Finding(UNREADABLE, f"the table cannot be read: {why}", shell_command("describe", name))


def _of_log(name: str, log: LogStats) -> Iterator[Finding]:
    if log.trouble:
        yield Finding(LOG_UNREACHABLE, f"the log cannot be read: {log.trouble}", shell_command("log", name))
    dead = sum(writer.is_gone for writer in log.writers)
    if dead:
        reason = f"{counted(dead, 'dead writer')} left an unfinished write in the log"
        yield Finding(DEAD_WRITER, reason, shell_command("optimize", name, "--once", "--only", HEALING), HEALING)
    lost = sum(bucket.lost for bucket in log.buckets)
    if lost:
        reason = f"{counted(lost, 'record')} expired from the log before a snapshot had them"
        yield Finding(STORES_DIFFER, reason, shell_command("log", name))
    if log.log_only:
        reason = (
            f"{counted(log.log_only, 'row')} are only in the log, as '{EMIT_MODE.key}' = 'log' says: no file will have "
            f"them, and {log.log_only_kept}"
        )
        to_do = (
            f"read them with '{READ_MODE.key}' = 'union'; for rows in both stores write with '{EMIT_MODE.key}' = 'auto'"
        )
        yield Finding(ONLY_IN_LOG, reason, to_do, is_warning=True)
    if log.is_ahead:
        reason = "a rollback with files_only has changed the files alone: the log has rows that they do not have"
        yield Finding(LOG_AHEAD, reason, "start readers of the log with 'scan.mode' = 'latest-full'", is_warning=True)
    ahead = [bucket for bucket in log.buckets if bucket.applied > bucket.end]
    if ahead:
        one = ahead[0]
        reason = (
            f"the files are ahead of the log: bucket {one.bucket} has offset {one.applied} in a snapshot and ends at "
            f"{one.end}; the log was truncated or replaced"
        )
        yield Finding(STORES_DIFFER, reason, shell_command("log", name))

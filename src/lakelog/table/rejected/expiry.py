"""Deletes files of rejected rows that have expired, or that nothing names (RFC 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.errors import Corrupt
from lakelog.filestore.gc.orphans import DAY_MS
from lakelog.io.clock import now_ms
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState, state_of
from lakelog.table.rejected.entries import RejectedEntries, RejectedEntry


def expire_rejected(branches: Sequence[DynamicTable], age_ms: int = DAY_MS, dry_run: bool = False) -> Mapping[str, int]:
    """Deletes files of rejected rows, and lists of entries; returns path → size of those that nothing names.

    ``branches`` are all branches of a table, main first. A file stays while a snapshot, a tag or a waiting epoch of any
    branch names it, at most ``rejected.retention`` from its decision on. One that nothing names is deleted after
    ``age_ms``, because its epoch may still be decided; if a list cannot be read, after the retention. Lists the files
    first, then reads what names them, so that files of an epoch decided or sealed meanwhile are named. Raises
    Unavailable.
    """
    entries = RejectedEntries(branches[0])
    files = [s for s in entries.io.list(f"{entries.root}/rows") if not s.is_dir]
    lists = [s for s in entries.io.list(entries.root) if not s.is_dir]
    now, kept_ms = now_ms(), entries.kept_ms
    if not any(s.mtime_ms <= now - min(kept_ms, age_ms) for s in (*files, *lists)):
        return {}
    now = now if dry_run else storage_now_ms(entries.io, entries.table.path)
    oldest, before = now - kept_ms, now - age_ms
    waiting = [entry for branch in branches for record in branch.decided.all() for entry in RejectedEntry.of(record)]
    states, is_bad = _states(branches)
    times, names, has_bad_list = entries.of_states(states)
    for entry in waiting:
        times[entry.file] = max(entry.time_ms, times.get(entry.file, 0))
    expired = [s for s in files if s.name in times and max(times[s.name], s.mtime_ms) <= oldest]
    limit = min(before, oldest) if is_bad or has_bad_list else before
    lost = [s for s in files if s.name not in times and s.mtime_ms <= limit]
    lost += [s for s in lists if s.name not in names and s.mtime_ms <= (min(before, oldest) if is_bad else before)]
    for status in () if dry_run else (*expired, *lost):
        entries.io.delete(status.path)
    return {status.path: status.size for status in lost}


def _states(branches: Sequence[DynamicTable]) -> tuple[list[LogState], bool]:
    """The log states of all snapshots and tags; whether one cannot be read."""
    states, is_bad = [], False
    for branch in branches:
        for root in branch.store.references.branch_roots():
            try:
                state = state_of(root.snapshot)
            except Corrupt:
                is_bad = True
            else:
                states += [] if state is None else [state]
    return states, is_bad

"""Procedures of tags and branches."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.io import clock
from lakelog.sql.runtime.procedure import age, duration, flag, number, procedure, text
from lakelog.table.commit.seal import named_snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.time_travel import snapshot_at_time
from lakelog.table.write import restore


@procedure(tag=text, snapshot=number, time_retained=duration)
def create_tag(
    table: DynamicTable, tag: str, snapshot: int | None = None, time_retained: timedelta | None = None
) -> None:
    """Names a snapshot, by default the newest, with all commits."""
    table.store.tags.create(tag, named_snapshot(table, snapshot), time_retained)


@procedure(tag=text, timestamp=number, time_retained=duration)
def create_tag_from_timestamp(
    table: DynamicTable, tag: str, timestamp: int, time_retained: timedelta | None = None
) -> pa.Table:
    """Names the newest snapshot at or before a time, in milliseconds since 1970."""
    snapshot = snapshot_at_time(table.store, timestamp)
    table.store.tags.create(tag, snapshot.id, time_retained)
    return pa.table(
        {
            "tagName": [tag],
            "snapshot": pa.array([snapshot.id], pa.int64()),
            "commit_time": pa.array([snapshot.time_millis], pa.int64()),
            "watermark": pa.array([None if snapshot.watermark is None else str(snapshot.watermark)], pa.string()),
        }
    )


@procedure(tag=text, snapshot=number, time_retained=duration)
def replace_tag(
    table: DynamicTable, tag: str, snapshot: int | None = None, time_retained: timedelta | None = None
) -> None:
    """Lets a tag name another snapshot, by default the newest, with all commits."""
    table.store.tags.replace(tag, named_snapshot(table, snapshot), time_retained)


@procedure(tag=text, target_tag=text)
def rename_tag(table: DynamicTable, tag: str, target_tag: str) -> None:
    """Gives a tag another name."""
    table.store.tags.rename(tag, target_tag)


@procedure(tag=text)
def delete_tag(table: DynamicTable, tag: str) -> None:
    """Deletes tags (several with commas) and the files that only they kept."""
    for name in tag.split(","):
        table.store.tags.delete(name.strip())


@procedure(older_than=age)
def expire_tags(table: DynamicTable, older_than: timedelta | None = None) -> pa.Table:
    """Deletes tags whose time is over, and with ``older_than`` those without one that are older."""
    limit = None if older_than is None else clock.local_time(clock.now_ms()) - older_than
    expired = table.store.tags.expire(older_than=limit)
    return pa.table({"expired_tags": pa.array([tag.name for tag in expired], pa.string())})


@procedure(branch=text, tag=text, snapshot=number)
def create_branch(table: DynamicTable, branch: str, tag: str | None = None, snapshot: int | None = None) -> None:
    """Makes a branch from a tag or a snapshot, or an empty one."""
    table.store.branches.create(branch, tag, snapshot)


@procedure(branch=text)
def delete_branch(table: DynamicTable, branch: str) -> None:
    """Deletes branches (several with commas) and the files that only they named."""
    for name in branch.split(","):
        table.store.branches.delete(name.strip())


@procedure(branch=text, files_only=flag)
def fast_forward(table: DynamicTable, branch: str, files_only: bool = False) -> None:
    """Fast-forwards main to a branch."""
    restore.fast_forward(table, branch, files_only)

"""Keeps the number of a table's files low after a batch write."""

from __future__ import annotations

import logging
from typing import Final

from lakelog.io.clock import sleep
from lakelog.io.logs import fields
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.compaction import FULL_COMPACTION_COMMITS, LOOKUP_WAIT
from lakelog.options.table import COMPACTION_TRIGGER
from lakelog.table.maintenance.compaction_commit import GroupedCommits
from lakelog.table.maintenance.compaction_job import run_tasks
from lakelog.table.maintenance.compaction_task import LocalExecutor, plan_tasks
from lakelog.table.model.dynamic_table import DynamicTable

_LOG = logging.getLogger("lakelog.compact")
_CHECKS: Final = 40
_POLL_S: Final = 0.25


def compact_best_effort(table: DynamicTable) -> None:
    """Compacts buckets after a write if needed; a failure is only logged, because the write is already committed.

    If only a compaction of level 0 makes the rows or their changes visible, it also waits some seconds for other
    compactors, unless ``lookup-wait`` is false. With ``full-compaction.delta-commits`` it compacts the whole table.
    """
    options = table.options
    full = table.schema.is_keyed and (options.get_typed(FULL_COMPACTION_COMMITS) or 0) > 0
    is_urgent = table.schema.is_keyed and needs_lookup(options)
    waits = is_urgent and options.need(LOOKUP_WAIT)
    try:
        for _ in range(_CHECKS):
            commits = GroupedCommits(table)
            tasks = plan_tasks(table, full)
            if is_urgent and not waits and not full:
                tasks = [task for task in tasks if task.runs >= options.need(COMPACTION_TRIGGER)]
            run_tasks(commits, table, tasks, LocalExecutor(), marks_full=full)
            if not waits or not (commits.busy or commits.lost):
                return
            sleep(_POLL_S)
        about = fields(table=table.name)
        _LOG.warning("new rows of %s are seen when another compactor has finished", table.name, extra=about)
    except Exception as failure:  # the rows are committed; after an error the caller would write them again
        _LOG.warning("compaction of %s failed: %r", table.name, failure, extra=fields(table=table.name))

"""Keeps a table's files few after a batch write."""

from __future__ import annotations

import logging

from lakelog.errors import LakelogError
from lakelog.filestore.scan import skips_level_zero
from lakelog.options.compaction import FULL_COMPACTION_COMMITS, LOOKUP_WAIT
from lakelog.options.table import COMPACTION_TRIGGER
from lakelog.table.compaction_commits import GroupedCommits
from lakelog.table.compaction_job import run_tasks
from lakelog.table.compaction_task import LocalExecutor, plan_tasks
from lakelog.table.dynamic_table import DynamicTable

_LOG = logging.getLogger("lakelog.compact")


def compact_quietly(table: DynamicTable) -> None:
    """Compacts after a write what needs it; a failure is logged only, because the write is in the table already.

    Where readers skip level 0 that is what makes the rows visible, unless ``lookup-wait`` is false. With
    ``full-compaction.delta-commits`` all of the table is compacted.
    """
    full = table.schema.is_keyed and (table.options.get_typed(FULL_COMPACTION_COMMITS) or 0) > 0
    try:
        tasks = plan_tasks(table, full)
        if not full and skips_level_zero(table.schema) and not table.options.need(LOOKUP_WAIT):
            tasks = [task for task in tasks if task.runs >= table.options.need(COMPACTION_TRIGGER)]
        run_tasks(GroupedCommits(table), table, tasks, LocalExecutor(), marks_full=full)
    except LakelogError as failure:
        _LOG.warning("compaction of %s failed: %s", table.name, failure)

"""A process that streams one epoch into a table and ends: usage ended_stream_job.py WAREHOUSE."""

from __future__ import annotations

import sys

import lakelog
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal_thread import sealer_for
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import rows


def main() -> None:
    table = lakelog.connect(warehouse=sys.argv[1]).table("db.t").logical
    assert should_write_epoch(table, "query", 0, "run")
    task = TaskWriter(table, "query", 0, lane=0)
    for batch in rows(1, 2, name="stream").to_batches():
        task.write(batch)
    sealer = sealer_for(table, "query")
    sealer.committer.commit(0, [task.finish()])
    sealer.stop()  # it has no time for a seal any more
    sealer.notify()


if __name__ == "__main__":
    main()

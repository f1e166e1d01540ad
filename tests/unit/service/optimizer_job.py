"""A daemon that stands still in the middle of its first compaction: usage optimizer_job.py WAREHOUSE MARK.

Its new files are written and its lease is taken, nothing is committed; then it makes the file MARK and waits to be
killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import lakelog
from lakelog.filestore.compaction.planner import CompactionResult
from lakelog.filestore.store import FileStore
from lakelog.service.optimizer.optimizer import Optimizer


def main() -> None:
    warehouse, mark = sys.argv[1:]
    compaction = FileStore.run_compaction

    def stuck(store: FileStore, partition: bytes, bucket: int, full: bool = False) -> CompactionResult | None:
        result = compaction(store, partition, bucket, full)
        Path(mark).write_text("at work", encoding="utf-8")
        while True:
            time.sleep(60)
        return result

    FileStore.run_compaction = stuck  # type: ignore[method-assign]
    Optimizer(lakelog.connect(warehouse=warehouse)).serve()


if __name__ == "__main__":
    main()

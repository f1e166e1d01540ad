"""The job that the kill test kills: replays changes into a table until it is through, then writes a marker file.

usage: kill_job.py WAREHOUSE CHECKPOINT CHANGES START_MS RATE DONE_FILE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lakelog import connect
from lakelog.spark.session.replay_source import ReplaySource


def main() -> None:
    warehouse, checkpoint, changes, start_ms, rate, done = sys.argv[1:]
    with connect(warehouse=warehouse) as lake:
        lake.spark.dataSource.register(ReplaySource)
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=changes, rate=rate, paced_rows=10**9, burst=2_000, start_ms=start_ms
        )
        query = lake.write_stream(source.load().drop("sent_at").repartition(2, "id"), "db.t", checkpoint)
        import pyarrow as pa

        with pa.memory_map(changes) as file:
            total = pa.ipc.open_file(file).read_all().num_rows
        row = -1
        while row < total:
            if query.exception() is not None:
                raise query.exception()
            progress = query.lastProgress
            if progress is not None and progress.sources[0].endOffset:
                import json

                row = json.loads(progress.sources[0].endOffset)["row"]
            time.sleep(0.1)
        query.processAllAvailable()
        query.stop()
        Path(done).write_text("done", encoding="utf-8")


if __name__ == "__main__":
    main()

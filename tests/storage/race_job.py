"""One of several processes that commit to the same table as fast as they can.

usage: race_job.py NUMBER COMMITS < JSON with "warehouse" and "options"
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from lakelog import connect


def main() -> None:
    number, commits = int(sys.argv[1]), int(sys.argv[2])
    given = json.load(sys.stdin)
    table = connect(warehouse=given["warehouse"], storage_options=given["options"]).table("db.t")
    for commit in range(commits):
        mine = number * 1000 + commit
        rows = pa.table({"id": pa.array([mine, -1], pa.int64()), "name": [f"r{mine}", f"r{mine}"]})
        with table.writer() as writer:
            writer.write(rows)


if __name__ == "__main__":
    main()

"""The process that the tests of mirrors kill: mirrors ``db.t`` without end.

usage: mirror_job.py WAREHOUSE ADDRESS START
"""

from __future__ import annotations

import sys

from lakelog import connect


def main() -> None:
    warehouse, to, start = sys.argv[1:]
    with connect(warehouse=warehouse) as lake:
        for _ in lake.table("db.t").mirror(to, start):
            pass


if __name__ == "__main__":
    main()

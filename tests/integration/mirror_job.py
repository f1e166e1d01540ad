"""The process that the tests of mirrors kill: mirrors ``db.t`` without end, and prints a line before each transaction.

usage: mirror_job.py WAREHOUSE ADDRESS START
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakelog import connect
from lakelog.logstore.base import Records
from lakelog.logstore.kafka.mirror import KafkaMirror


def main() -> None:
    warehouse, to, start = sys.argv[1:]
    commit = KafkaMirror.commit

    def announced(self: KafkaMirror, parts: Sequence[tuple[int, Records]], position: str) -> None:
        sys.stdout.write("commit\n")
        sys.stdout.flush()
        commit(self, parts, position)

    KafkaMirror.commit = announced  # type: ignore[method-assign]
    with connect(warehouse=warehouse) as lake:
        for _ in lake.table("db.t").mirror(to, start):
            pass


if __name__ == "__main__":
    main()

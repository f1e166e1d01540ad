"""A batch write that dies: usage dead_writer_job.py WAREHOUSE open|decided."""

from __future__ import annotations

import os
import signal
import sys

import lakelog
from lakelog.table.commit.seal_thread import Sealer
from log_tables import rows


def main() -> None:
    warehouse, how = sys.argv[1:]
    writer = lakelog.connect(warehouse=warehouse).table("db.t").writer()
    writer.write(rows(1, 7, 8, 9, name="lost" if how == "open" else "kept"))
    writer.flush()
    if how == "decided":
        Sealer.seal_now = lambda self: None  # type: ignore[assignment,method-assign]
        writer.commit()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()

"""CPU and opened data files of ``count()`` over a keyed table of many partitions, without Spark.

usage: count_account.py [--partitions 1000] [--json FILE]. ``apart`` has files whose keys do not overlap; then each
tenth partition gets newer versions of rows (``newer``). ``read`` counts the rows that a scan of one column returns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lakelog import connect
from lakelog.io.storage.local import LocalFileIO

_ROWS = 100
"""Rows of a partition."""
_ROUNDS = 3


def counts(partitions: int) -> dict[str, dict[str, float]]:
    """The measurements of each way and state of the table."""
    out: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as warehouse, connect(warehouse) as lake:
        lake.sql("create database d")
        lake.sql(
            "create table d.t (day int, id bigint, v double, primary key (day, id)) using lakelog "
            "partitioned by (day) tblproperties ('bucket' = '1', 'write-only' = 'true')"
        )
        table = lake.table("d.t")

        def read() -> int:
            return sum(batch.num_rows for batch in table.scan(columns=["day"]).to_batches())

        for state, days in (("apart", range(partitions)), ("newer", range(0, partitions, 10))):
            day = np.repeat(np.array(days, np.int32), _ROWS)
            rows = {"day": day, "id": np.tile(np.arange(_ROWS), len(days)), "v": day * 0.5}
            lake.write(pa.table(rows), "d.t")
            for way, run in (("count", table.scan().count), ("read", read)):
                out[f"{state}, {way}"] = _measured(run, partitions * _ROWS)
    return out


def _measured(run: Callable[[], int], expected: int) -> dict[str, float]:
    opened: list[str] = []
    open_input = LocalFileIO.open_input

    def counted(self: LocalFileIO, path: str) -> Any:
        opened.append(path)
        return open_input(self, path)

    cpu = []
    with patch.object(LocalFileIO, "open_input", counted):
        for _ in range(_ROUNDS):
            began = time.process_time()
            assert run() == expected
            cpu.append(time.process_time() - began)
    return {"cpu_ms": round(min(cpu) * 1e3, 1), "files_opened": len(opened) // _ROUNDS}


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--json")
    given = parser.parse_args()
    out = counts(given.partitions)
    json.dump(out, sys.stdout, indent=1)
    if given.json:
        Path(given.json).write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

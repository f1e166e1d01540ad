"""Write amplification of upsert batches without Spark: bytes of all data files ever written / of those of level 0.

usage: write_amplification.py [--batches 100] [--rows 20000] [--keys 1000000] [--buckets 4] [--option KEY=VALUE …]

No snapshot expires meanwhile, so every file that was ever written is still on disk. A table that is never compacted
takes the same batches and says what level 0 alone is.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog import connect


def written(given: argparse.Namespace, write_only: bool) -> dict[str, Any]:
    """Writes all batches into a new table; bytes and files on disk and the seconds that it took."""
    lake = connect(warehouse=tempfile.mkdtemp(prefix="lakelog-amplification-"))
    options = {
        "bucket": str(given.buckets),
        "write-only": str(write_only).lower(),
        "snapshot.num-retained.min": str(1_000_000),
        **dict(pair.split("=", 1) for pair in given.option),
    }
    text = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    lake.sql("create database bench")
    lake.sql(
        f"create table bench.t (id bigint, amount double, name string, primary key (id)) using lakelog "
        f"tblproperties ({text})"
    )
    table = lake.table("bench.t")
    chance = np.random.default_rng(7)
    started, used = time.perf_counter(), time.process_time()
    for _ in range(given.batches):
        ids = chance.integers(0, given.keys, given.rows)
        names = pa.array(chance.integers(0, 10**12, given.rows)).cast(pa.string())
        with table.writer() as writer:
            writer.write(pa.table({"id": ids, "amount": chance.random(given.rows), "name": names}))
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    files = [path.stat().st_size for path in Path(table.path).glob("bucket-*/*") if path.is_file()]
    live = table.logical.store.live_entries(table.latest_snapshot())
    return {
        "mib": round(sum(files) / 2**20, 1),
        "files": len(files),
        "live_files": len(live),
        "live_mib": round(sum(entry.file.file_size for entry in live) / 2**20, 1),
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--option", action="append", default=[])
    given = parser.parse_args()
    compacted, plain = written(given, False), written(given, True)
    print(json.dumps({"compacted": compacted, "write-only": plain}))
    print(f"write amplification after {given.batches} batches: {compacted['mib'] / plain['mib']:.2f}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

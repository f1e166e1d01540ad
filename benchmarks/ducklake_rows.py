"""Streams rows into DuckLake on SQLite; run by ``streamed_rows.py`` in an environment with DuckDB's extension.

usage: ducklake_rows.py BATCHES SECONDS INLINED. Batches of at most INLINED rows stay in the catalog (data inlining).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import duckdb
import duckdb_extensions  # type: ignore[import-not-found]  # only in that environment
import pyarrow as pa


def main() -> None:
    batches, seconds, inlined = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    place = tempfile.mkdtemp()
    lake = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner"):
        duckdb_extensions.import_extension(name, con=lake)
        lake.execute(f"load {name}")
    options = f"data_path '{place}/data/', data_inlining_row_limit {inlined}"
    lake.execute(f"attach 'ducklake:sqlite:{place}/catalog.sqlite' as lake ({options})")
    lake.execute("create table lake.t (id bigint, amount double)")
    parts = [pa.table({"id": range(n * 10, n * 10 + 10), "amount": [0.5] * 10}) for n in range(batches)]
    begun, cpu, written = time.perf_counter(), time.process_time(), 0
    for part in parts:
        lake.register("part", part)
        lake.execute("insert into lake.t select * from part")
        written += 1
        if time.perf_counter() - begun > seconds:
            break
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    assert lake.execute("select count(*) from lake.t").fetchone() == (written * 10,)
    found = {"rows": written * 10, "rows_per_s": round(written * 10 / wall)}
    print(json.dumps({**found, "cpu_us_a_batch": round(cpu / written * 1e6)}))


if __name__ == "__main__":
    main()

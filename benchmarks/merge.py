"""Writes, merged reads, point reads and compaction of a keyed table without Spark: time, CPU and peak memory.

usage: merge.py [--rows 5000000] [--only base,upserts,...] [--repeat 3] [--directory DIR] [--json FILE]

Workload W: a base of ``--rows`` rows (id bigint key, grp int, amount double, name and payload text, ts timestamp) in 8
buckets, then 10 upsert batches of 4 % of it: 70 % existing keys, 25 % new ones, 5 % deletes. Each step runs in a
process of its own, which opens the table before the clock starts; ``decode`` is the floor of the reads: the same files
by pyarrow, nothing merged. ``narrow`` is 2/5 of the rows in 5 batches over half as many keys, ``narrow_read`` its
merged read. ``large`` is one bucket of 4 times the rows, in runs of what the write buffer holds.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import lakelog

_COLUMNS = "id bigint, grp int, amount double, name string, payload string, ts timestamp, primary key (id)"
_BATCHES, _SHARE, _CHUNK = 10, 25, 500_000
_POINTS = 20
_THREE = ("id", "grp", "amount")


def rows_of(ids: np.ndarray, version: int, kinds: np.ndarray | None = None) -> pa.Table:
    """Rows with these keys; ``version`` makes their values other ones."""
    numbers = pl.DataFrame({"id": ids, "v": (ids * 2654435761 + version * 40503) % 1_000_003})
    frame = numbers.select(
        "id",
        grp=(pl.col("v") % 1000).cast(pl.Int32),
        amount=pl.col("v") * 0.25,
        name=pl.format("customer-{}", (pl.col("v") * 7919 % 100_000_000).cast(pl.String).str.zfill(10)),
        payload=pl.format(
            "{}-{}-{}-some-text-that-repeats-{}",
            pl.col("v") * 104_729,
            pl.col("id") * 31,
            pl.lit(version),
            pl.col("v") * 15_485_863,
        ),
        ts=pl.from_epoch(pl.lit(1_700_000_000_000_000) + pl.col("v") * 1_000_000, time_unit="us"),
    )
    table = frame.to_arrow()
    if kinds is not None:
        table = table.append_column("_row_kind", pa.array(np.array(["+U", "-D"])[kinds]))
    return table


def batch_of(number: int, rows: int) -> pa.Table:
    """Upsert batch ``number`` (from 0) of workload W over a base of so many rows."""
    chance = np.random.default_rng(number + 1)
    size = rows // _SHARE
    new, gone = size // 4, size // 20
    old = chance.permutation(rows)[: size - new]
    fresh = rows + number * new + np.arange(new)
    ids = np.concatenate([old, fresh])
    kinds = np.zeros(size, np.int8)
    kinds[:gone] = 1
    order = chance.permutation(size)
    return rows_of(ids[order], number + 1, kinds[order])


def _table(directory: str, name: str, buckets: int = 8) -> Any:
    lake = lakelog.connect(warehouse=directory)
    lake.sql("create database if not exists bench")
    lake.sql(
        f"create table if not exists bench.{name} ({_COLUMNS}) using lakelog "
        f"tblproperties ('bucket' = '{buckets}', 'write-only' = 'true')"
    )
    return lake.table(f"bench.{name}")


def base(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """The base load; input is made before the clock starts."""
    order = np.random.default_rng(0).permutation(rows)
    parts = [rows_of(order[start : start + _CHUNK], 0) for start in range(0, rows, _CHUNK)]
    table = _table(directory, "w")
    yield lambda: _write(table, parts)


def upserts(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """Each upsert batch, its commit included."""
    table = _table(directory, "w")
    for number in range(_BATCHES):
        batch = batch_of(number, rows)
        yield lambda batch=batch: _write(table, [batch])


def _write(table: Any, parts: list[pa.Table]) -> None:
    with table.writer() as writer:
        for part in parts:
            writer.write(part)


def decode(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """All rows of all files, not merged."""
    table = _table(directory, "w")
    splits = table.scan().plan()
    files = [f"{table.path}/bucket-{s.bucket}/{f.file_name}" for s in splits for f in s.files]
    names = [*table.schema.names, "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    while True:
        yield lambda: sum(
            batch.num_rows for f in files for batch in pq.ParquetFile(f).iter_batches(65_536, columns=names)
        )


def _read(columns: tuple[str, ...] | None) -> Callable[[str, int], Iterator[Callable[[], Any]]]:
    def step(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
        table = _table(directory, "w")
        while True:
            yield lambda: sum(b.num_rows for b in table.scan(columns=columns).to_batches())

    return step


def point(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """The row of one key of an opened table."""
    table = _table(directory, "w")
    chance = np.random.default_rng(5)
    while True:
        key = int(chance.integers(rows))
        yield lambda key=key: table.scan(filter=f"id = {key}").to_arrow().num_rows


def compact(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """A full compaction."""
    table = _table(directory, "w")
    yield lambda: table.compact()


def narrow(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """5 upsert batches over few keys, and their commits."""
    keys = rows // 5
    chance = np.random.default_rng(9)
    parts = [rows_of(chance.permutation(keys)[: rows * 2 // 25], number) for number in range(5)]

    table = _table(directory, "narrow")

    def write() -> None:
        for part in parts:
            _write(table, [part])

    yield write


def narrow_read(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """The merged read of what ``narrow`` wrote."""
    table = _table(directory, "narrow")
    while True:
        yield lambda: table.scan().to_arrow().num_rows


def large(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """The load of one large bucket, every tenth key twice; the input is made as it is written."""
    total = 4 * rows

    table = _table(directory, "large", 1)

    def write() -> None:
        chance = np.random.default_rng(3)
        with table.writer() as writer:
            for start in range(0, total, _CHUNK):
                ids = np.arange(start, start + _CHUNK) * 7_368_787 % (total * 9 // 10)
                writer.write(rows_of(chance.permutation(ids), start))

    yield write


def large_read(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """All rows of the large bucket, merged, batch by batch."""
    table = _table(directory, "large", 1)
    yield lambda: sum(b.num_rows for b in table.scan().to_batches())


def large_compact(directory: str, rows: int) -> Iterator[Callable[[], Any]]:
    """A full compaction of the large bucket."""
    table = _table(directory, "large", 1)
    yield lambda: table.compact()


_STEPS: dict[str, Callable[[str, int], Iterator[Callable[[], Any]]]] = {
    "base": base,
    "upserts": upserts,
    "decode": decode,
    "read 6": _read(None),
    "read 3": _read(_THREE),
    "read 1": _read(("amount",)),
    "point": point,
    "compact": compact,
    "decode compacted": decode,
    "read 6 compacted": _read(None),
    "point compacted": point,
    "narrow": narrow,
    "narrow_read": narrow_read,
    "large": large,
    "large_read": large_read,
    "large_compact": large_compact,
}


def measured(step: str, directory: str, rows: int, repeat: int) -> dict[str, Any]:
    """Runs a step in this process: median wall and CPU, longest wall, and the peak of memory with the input in it."""
    walls, cpus, result = [], [], None
    runs = repeat * _POINTS if step.startswith("point") else repeat
    for number, run in enumerate(_STEPS[step](directory, rows)):
        if number >= max(runs, _BATCHES if step == "upserts" else 1):
            break
        before, started = _cpu(), time.perf_counter()
        result = run()
        walls.append(time.perf_counter() - started)
        cpus.append(_cpu() - before)
    warm = slice(1, None) if step.startswith("point") else slice(None)
    return {
        "wall": round(statistics.median(walls[warm]), 4),
        "cpu": round(statistics.median(cpus[warm]), 4),
        "min": round(min(walls), 4),
        "max": round(max(walls), 4),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **({"rows": result} if isinstance(result, int) else {}),
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Runs the steps one after the other, each in its own process, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--only", default=",".join(_STEPS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--directory", help="kept; without, a new one that is removed")
    parser.add_argument("--json")
    parser.add_argument("--step", help="runs one step in this process and prints its measurements")
    given = parser.parse_args()
    if given.step:
        print(json.dumps(measured(given.step, given.directory, given.rows, given.repeat)))
        return
    directory = given.directory or tempfile.mkdtemp(prefix="lakelog-bench-merge-")
    measurements: dict[str, Any] = {}
    for step in given.only.split(","):
        own = ["--step", step, "--directory", directory, "--rows", str(given.rows), "--repeat", str(given.repeat)]
        done = subprocess.run([sys.executable, __file__, *own], capture_output=True, text=True, check=False)
        failed = {"failed": done.stderr.strip().rpartition("\n")[2][-300:]}
        measurements[step] = failed if done.returncode else json.loads(done.stdout.splitlines()[-1])
        print(f"{step:18} {measurements[step]}", flush=True)
    files = list(Path(directory).rglob("*.parquet"))
    measurements["disk"] = {"files": len(files), "MB": round(sum(f.stat().st_size for f in files) / 1e6, 1)}
    print(f"{'disk':18} {measurements['disk']}")
    if given.json:
        Path(given.json).write_text(json.dumps(measurements, indent=2) + "\n", encoding="utf-8")
    if not given.directory:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

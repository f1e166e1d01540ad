"""Time and memory of plans over many data files: here, by pypaimon and by Paimon's Java core, on the same tables.

Tables are keyed, 8 buckets, partitioned by day: 20,000 files that only the metadata knows, once in one manifest, as
merging leaves it, and once in 100 manifests of a partition each; 2,000 small files that are there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta, SimpleStats
from lakelog.paimon.metadata.snapshot import APPEND, COMPACT
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type

SIDES = ("lakelog", "pypaimon", "paimon-java")
VIEWS = ("key", "partition", "full")

_COLUMNS = (
    ("day", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("name", "STRING"), ("amount", "DOUBLE"), ("grp", "INT"),
    ("seen", "BIGINT"), ("city", "STRING"), ("score", "DOUBLE"),
)  # fmt: skip
_BUCKETS, _FILES, _KEYS = 8, 25, 1000
_FIRST_ID = 3_000_000_000
_COMMITS = 31
"""Small manifests are merged when there are 30, so one of these commits pays for it."""


@dataclass(frozen=True)
class Layout:
    """A table to plan: its partitions, whether its files are there, whether each partition has a manifest."""

    name: str
    partitions: int
    is_real: bool = False
    one_manifest: bool = True


LAYOUTS = (
    Layout("20,000 files, 1 manifest", 100),
    Layout("20,000 files, 100 manifests", 100, one_manifest=False),
    Layout("2,000 files", 10, is_real=True),
)


def plans(pypaimon: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results of all tables, plans and sides. ``pypaimon`` is the Python that has it; without, it is left out."""
    for layout in LAYOUTS:
        warehouse = tempfile.mkdtemp(prefix="lakelog-bench-planning-")
        store = make_table(warehouse, layout)
        for view in VIEWS:
            for side in SIDES:
                python = pypaimon if side == "pypaimon" else sys.executable
                if python is not None:
                    yield f"{layout.name}, {view}, {side}", _measured(python, side, warehouse, view)
        yield f"{layout.name}, commit of 1 file, lakelog", commit_times(store)


def _measured(python: str, side: str, warehouse: str, view: str) -> dict[str, Any]:
    """What a process of its own measures: first plan, best of some more, peak memory, files planned."""
    command = [python, str(Path(__file__).with_name("planning_side.py")), side, warehouse, view]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().rpartition("\n")[2][-300:]}
    return {**json.loads(done.stdout.splitlines()[-1]), "load": round(os.getloadavg()[0], 1)}


def make_table(warehouse: str, layout: Layout) -> FileStore:
    """Writes the table ``bench.t``."""
    options = {"bucket": str(_BUCKETS), "manifest.merge-min-count": "30" if layout.one_manifest else "1000"}
    fields = [(name, parse_type(kind), None) for name, kind in _COLUMNS]
    schema = new_schema(fields, ("day", "id"), ("day",), options)
    path, io = f"{warehouse}/bench.db/t", LocalFileIO()
    io.write(f"{path}/schema/schema-0", schema.to_json())
    store = FileStore(io, path, schema)
    held: list[BucketFiles] = []
    for day in range(layout.partitions):
        for files in _real(store, day) if layout.is_real else _made_up(schema, day):
            held.append(files)
        if not layout.one_manifest:
            store.commit(CommitRequest(new_uuid(), 1, COMPACT, tuple(held), first_try=True))
            held.clear()
    if held:
        store.commit(CommitRequest(new_uuid(), 1, COMPACT, tuple(held), first_try=True))
    return store


def _made_up(schema: TableSchema, day: int) -> Iterator[BucketFiles]:
    text = f"2026-{day:04d}"
    types = [f.type for f in schema.fields]
    for bucket in range(_BUCKETS):
        files = []
        for number in range(_FILES):
            low = _FIRST_ID + number * _KEYS
            high = low + _KEYS - 1
            keys = [encode_row([k], [types[1]]) for k in (low, high)]
            values = SimpleStats(
                encode_row([text, low, "customer-00", 0.5, 1, number, "aachen", 0.0], types),
                encode_row([text, high, "customer-99", 99.5, 900, number + 9, "zwickau", 1.0], types),
                (0,) * len(types),
            )
            file = DataFileMeta(f"data-{new_uuid()}-{number}.parquet", 1 << 20, _KEYS, *keys, value_stats=values)
            numbers = {"min_sequence_number": number * _KEYS, "max_sequence_number": (number + 1) * _KEYS - 1}
            stats = SimpleStats(*keys, (0,))
            files.append(replace(file, key_stats=stats, level=5, creation_time_ms=1, delete_row_count=0, **numbers))
        yield BucketFiles(encode_partition([text], schema), bucket, _BUCKETS, tuple(files))


def _real(store: FileStore, day: int) -> Iterator[BucketFiles]:
    schema = store.schema
    partition = encode_partition([f"2026-{day:04d}"], schema)
    files: dict[int, list[DataFileMeta]] = {bucket: [] for bucket in range(_BUCKETS)}
    for number in range(_FILES):
        ids = _FIRST_ID + number * _KEYS + np.arange(_KEYS)
        columns: list[Any] = [
            [f"2026-{day:04d}"] * _KEYS, ids, [f"customer-{i % 100:02d}" for i in ids], ids * 0.5, ids % 900, ids,
            ["aachen"] * _KEYS, ids * 0.25,
        ]  # fmt: skip
        target = arrow_schema(schema.fields)
        rows = pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, target, strict=True)], schema=target)
        buckets = bucket_of_rows(rows, schema)
        for bucket in range(_BUCKETS):
            writer = store.bucket_writer(partition, bucket, number * _KEYS)
            chosen = rows.filter(pa.array(buckets == bucket))
            writer.write(chosen, pa.array(np.zeros(chosen.num_rows, np.int8)))
            files[bucket] += writer.finish()
    for bucket, made in files.items():
        yield BucketFiles(partition, bucket, _BUCKETS, tuple(made))


def commit_times(store: FileStore) -> dict[str, Any]:
    """Median and longest of commits that add a file each, ms."""
    (files,) = [f for f in _made_up(store.schema, 0) if f.bucket == 0]
    taken = []
    for number in range(_COMMITS):
        first = 10**9 + number
        new = replace(
            files.new_files[0], file_name=f"data-{new_uuid()}-0.parquet", level=0, min_sequence_number=first,
            max_sequence_number=first,
        )  # fmt: skip
        started = time.perf_counter()
        store.commit(CommitRequest(new_uuid(), 1, APPEND, (replace(files, new_files=(new,)),), first_try=True))
        taken.append((time.perf_counter() - started) * 1000)
    return {"median ms": round(float(np.median(taken)), 1), "max ms": round(max(taken), 1)}

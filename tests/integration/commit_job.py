"""One process of many that work on one table: ``commit_job.py WAREHOUSE TABLE writer|compactor|expirer NUMBER COUNT``.

A writer makes COUNT commits of rows whose keys all writers share, and prints one JSON line a commit: the snapshot and
the rows. The other roles go on until a line comes on their input.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable

import pyarrow as pa

import lakelog
from lakelog.errors import CommitConflict
from lakelog.filestore.commit_request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.spec.bucket import bucket_of_rows
from lakelog.spec.data_file import BucketFiles
from lakelog.table.open import identifier_of, open_catalog

NO_PARTITION = b"\x00" * 12
HOT_KEYS = 20
"""Keys that every commit writes; the winner must be the last commit."""


def write(store: FileStore, number: int, commit: int) -> None:
    """One commit: the hot keys, and one key that nobody else writes."""
    ids = [*range(HOT_KEYS), 1000 + number * 1000 + commit]
    rows = pa.table({"id": pa.array(ids, pa.int32()), "v": [f"{number}-{commit}"] * len(ids)})
    buckets = bucket_of_rows(rows, store.schema)
    places = {(NO_PARTITION, int(b)) for b in set(buckets.tolist())}
    highest = store.max_sequence_numbers(store.latest_snapshot(), places)
    files = []
    for place in sorted(places):
        writer = store.bucket_writer(*place, highest.get(place, -1) + 1)
        writer.write(rows.filter(pa.array(buckets == place[1])))
        files.append(BucketFiles(*place, store.schema.num_buckets, writer.finish()))
    snapshot = store.commit(CommitRequest(f"writer-{number}", commit, "APPEND", tuple(files)))
    print(json.dumps({"snapshot": snapshot.id, "value": f"{number}-{commit}", "id": ids[-1]}), flush=True)


def until_told(work: Callable[[], object]) -> int:
    """Does the work again and again until standard input has a line; returns how often it was done."""
    turns = 0
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        try:
            work()
            turns += 1
        except CommitConflict:
            continue
    return turns


def main(warehouse: str, name: str, role: str, number: int, count: int) -> None:
    table = lakelog.connect(warehouse=warehouse).table(name)
    if role == "compactor":
        print(json.dumps({"compactions": until_told(lambda: table.compact(full=False))}))
    elif role == "expirer":
        print(json.dumps({"expiries": until_told(lambda: table.expire_snapshots(retain_max=5, older_than_ms=0))}))
    else:
        location = open_catalog(warehouse).load_table(identifier_of(name))
        store = FileStore(location.io, location.path, location.schema)
        for commit in range(count):
            write(store, number, commit)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))

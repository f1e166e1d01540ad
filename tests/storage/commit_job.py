"""One process of many that work on table ``db.t``: ``commit_job.py writer|compactor|expirer NUMBER COUNT``.

The first line of its input is JSON with ``warehouse`` and ``options``. A writer makes COUNT commits of rows whose keys
all writers share, and prints one JSON line a commit: the snapshot and the rows. The other roles go on until a second
line comes.
"""

from __future__ import annotations

import contextlib
import json
import select
import sys
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa

import lakelog
from lakelog.errors import CommitConflict
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.rows.bucket import bucket_of_rows
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
    """Does the work again and again until standard input has a line; returns how often something was done."""
    turns = 0
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        with contextlib.suppress(CommitConflict):
            turns += bool(work())
    return turns


def main(role: str, number: int, count: int) -> None:
    given = json.loads(sys.stdin.readline())
    table = lakelog.connect(warehouse=given["warehouse"], storage_options=given["options"]).table("db.t")
    if role == "compactor":
        print(json.dumps({"compactions": until_told(lambda: table.compact(full=False))}))
    elif role == "expirer":
        print(json.dumps({"expired": until_told(lambda: table.expire_snapshots(5, 1, timedelta(0)))}))
    else:
        location = open_catalog(given["warehouse"], storage_options=given["options"]).load_table(identifier_of("db.t"))
        store = FileStore(location.io, location.path, location.schema)
        for commit in range(count):
            write(store, number, commit)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

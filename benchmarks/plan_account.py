"""CPU of plans by one process of tables with 2,000 and 20,000 files that only the metadata knows.

usage: plan_account.py [--files 2000,20000] [--json FILE]. ``first`` has no decoded manifest, ``again`` is the same
snapshot, ``next`` the one after a commit of one file, ``key`` a plan for one key. The least of some runs, in ms.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from planning import Layout, _made_up, make_table

from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.metadata.manifests import MANIFEST_CACHE
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.snapshot import APPEND

_ROUNDS = 7
_FILES_OF_A_DAY = 200


def plans(files: int) -> dict[str, float]:
    """The CPU of each plan."""
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as warehouse:
        store = make_table(warehouse, Layout(f"{files} files", files // _FILES_OF_A_DAY))
        out = {
            "first": _least(store.plan, MANIFEST_CACHE.clear),
            "again": _least(store.plan),
            "key": _least(lambda: store.plan(filter=Compare("id", "=", 3_000_000_001))),
            "next": _least(store.plan, lambda: _commit(store)),
        }
        assert sum(len(split.files) for split in store.plan()) == files + _ROUNDS
    return out


def _least(run: Callable[[], Any], before: Callable[[], object] = lambda: None) -> float:
    taken = []
    for _ in range(_ROUNDS):
        before()
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return round(min(taken) * 1e3, 2)


def _commit(store: FileStore) -> None:
    files = next(iter(_made_up(store.schema, 0)))
    first = 10**9 + time.monotonic_ns()
    new = replace(files.new_files[0], file_name=f"data-{new_uuid()}-0.parquet", level=0)
    new = replace(new, min_sequence_number=first, max_sequence_number=first)
    store.commit(CommitRequest(new_uuid(), 1, APPEND, (replace(files, new_files=(new,)),), first_try=True))


def main() -> None:
    """Reads the command line, prints the CPU of the plans."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="2000,20000")
    parser.add_argument("--json")
    given = parser.parse_args()
    out = {f"{files} files": plans(int(files)) for files in given.files.split(",")}
    json.dump(out, sys.stdout, indent=1)
    if given.json:
        Path(given.json).write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

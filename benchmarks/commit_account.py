"""What one commit of two rows costs beside its rows: CPU, and how often it reads, looks at and synchronises files.

usage: commit_account.py [--commits 300] [--log embedded] [--json FILE]. Without Spark, on local files; nothing of it
is a time on the clock, so a busy machine changes little. ``kept`` is one open writer, ``new`` a writer for each commit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from lakelog import connect
from lakelog.io.storage.local import LocalFileIO

_CALLS = (
    "read", "open_input", "open_output", "write", "write_all", "write_hint", "create", "exists", "size", "list",
    "delete", "delete_dir", "delete_empty_dir", "makedirs", "absolute", "real",
)  # fmt: skip
_KINDS = (
    ("snapshot hint", r"/snapshot/(LATEST|EARLIEST)$"), ("snapshot", r"/snapshot/snapshot-\d+$"),
    ("schema", r"/schema/schema-\d+$"), ("manifest", r"/manifest/(manifest|index)-"), ("chain", r"/lakelog/chain/"),
    ("lease and origin", r"/lakelog/staged/"), ("log", r"/lakelog/log"), ("data", r"/bucket-"),
)  # fmt: skip
_WINDOW = 50


def account(commits: int, log: str, keeps: bool, more: str = "") -> dict[str, Any]:
    """The costs of a commit, as the means (CPU: the median) of the last commits, and of the table on disk."""
    warehouse = tempfile.mkdtemp(prefix="lakelog-bench-")
    with connect(warehouse) as lake, ExitStack() as held:
        lake.sql("create database d")
        lake.sql(
            f"create table d.t (id bigint, v string, primary key (id)) using lakelog tblproperties ('bucket' = '1', "
            f"'log-store.enabled' = 'true', 'log.system' = '{log}'{more})"
        )
        table = lake.table("d.t")
        writer = held.enter_context(table.writer()) if keeps else None
        calls: Counter[str] = Counter()
        cpu: list[float] = []
        with _counting(calls):
            for number in range(commits):
                if number == commits - min(_WINDOW, commits):
                    calls.clear()
                rows = pa.table({"id": [number % 100, number], "v": [str(number), "x"]})
                began = time.process_time()
                if writer is None:
                    with table.writer() as opened:
                        opened.write(rows)
                else:
                    writer.write(rows)
                    writer.commit()
                cpu.append((time.process_time() - began) * 1e3)
        counted = min(_WINDOW, commits)
        calls_each = {name: round(n / counted, 2) for name, n in sorted(calls.items(), key=lambda item: -item[1])}
        files = [file.stat().st_size for file in Path(warehouse).rglob("*") if file.is_file()]
        data = [file.stat().st_size for file in Path(warehouse).rglob("bucket-*/*")]
    shutil.rmtree(warehouse)
    return {
        "cpu_ms": round(statistics.median(cpu[-counted:]), 2),
        "cpu_ms_low": round(statistics.quantiles(cpu[-counted:], n=10)[0], 2),
        "cpu_ms_first": round(statistics.median(cpu[:counted]), 2),
        "cpu_ms_mean": round(statistics.fmean(cpu[-counted:]), 2),
        "files": len(files),
        "mb": round(sum(files) / 1e6, 2),
        "data_mb": round(sum(data) / 1e6, 2),
        "per_commit": calls_each,
    }


@contextmanager
def _counting(calls: Counter[str]) -> Iterator[None]:
    """Counts the calls of the local storage in this process by kind of file, and the synchronisations."""

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, path: Any, *given: Any) -> Any:
            for each in path if isinstance(path, dict) else (path,):
                calls[f"{name} {_kind(each)}"] += 1
            return work(self, path, *given)

        return call

    sync = os.fsync

    def fsync(handle: int) -> None:
        calls["fsync"] += 1
        sync(handle)

    with ExitStack() as patches:
        for name in _CALLS:
            patches.enter_context(patch.object(LocalFileIO, name, counted(name, getattr(LocalFileIO, name))))
        patches.enter_context(patch.object(os, "fsync", fsync))
        yield


def _kind(path: str) -> str:
    return next((kind for kind, pattern in _KINDS if re.search(pattern, path)), re.sub(r"[\d]+|.*/", "", path))


def main() -> None:
    """Reads the command line, prints the accounts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--log", default="embedded")
    parser.add_argument("--only", choices=("kept", "new"))
    parser.add_argument("--json")
    given = parser.parse_args()
    accounts = {
        name: account(given.commits, given.log, name == "kept")
        for name in ("kept", "new")
        if given.only in (None, name)
    }
    json.dump(accounts, sys.stdout, indent=1)
    if given.json:
        Path(given.json).write_text(json.dumps(accounts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Small pieces that the benchmarks share: input, percentiles, memory of the process tree, a broker."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakelog.service.servers.server_process import KafkaBroker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ready_formats import schema_registry  # noqa: E402
from servers.pulsar_server import PulsarServer  # noqa: E402

CREATE = """create table bench.t (id bigint, grp int, amount double, name string, sent_at timestamp{key}) using lakelog
tblproperties ('bucket' = '{buckets}', 'log-store.enabled' = 'true', {log}
'commit.interval' = '2 s', 'log.changelog-mode' = '{mode}')"""

_NAMES = pa.array([f"customer-{number:08d}" for number in range(100_000)])


def make_input(rows: int) -> str:
    """An Arrow file of so many distinct rows; returns its path."""
    ids = np.arange(rows, dtype=np.int64)
    table = pa.table(
        {
            "id": ids,
            "grp": (ids % 1000).astype(np.int32),
            "amount": ids * 0.25,
            "name": _NAMES.take(pa.array(ids % len(_NAMES))),
        }
    )
    path = str(Path(tempfile.mkdtemp(prefix="lakelog-bench-")) / "rows.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table, max_chunksize=65_536)
    return path


def percentiles(values: np.ndarray) -> dict[str, float]:
    """p50, p90, p99, max (rounded to 0.1) and the number of samples."""
    if not len(values):
        return {"samples": 0}
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    named = {"p50": p50, "p90": p90, "p99": p99, "max": values.max()}
    return {k: round(float(v), 1) for k, v in named.items()} | {"samples": len(values)}


def tree_rss_mb() -> float:
    """Resident memory of this process and all its children, MiB."""
    pids, total = [os.getpid()], 0
    while pids:
        pid = pids.pop()
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return round(total / 1024, 1)


@contextlib.contextmanager
def log_options(log: str) -> Iterator[str]:
    """The table properties of a log of any format; starts a server for ``kafka`` and ``pulsar``."""
    registry = f"'log-store.schema-registry.url' = '{schema_registry().url}', "
    if log == "embedded":
        yield registry
        return
    if log == "files":
        yield f"'log-store.type' = 'files', {registry}"
        return
    if log == "pulsar":
        with PulsarServer(tempfile.mkdtemp(prefix="lakelog-bench-pulsar-")) as server:
            properties = "".join(f"'properties.{key}' = '{value}', " for key, value in server.properties.items())
            yield f"'log-store.address' = '{server.service_url}', {properties}{registry}"
        return
    with KafkaBroker(tempfile.mkdtemp(prefix="lakelog-bench-kafka-")) as broker:
        yield f"'log-store.address' = '{broker.bootstrap}', {registry}"

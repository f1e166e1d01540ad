"""Latency and rates of ``lakelog serve`` on loopback: ``python benchmarks/serve.py [--json FILE]``.

A client process writes to and reads from a server process. Printed are the time from the send of a batch to its answer
(p50, p99), and rows per second of one stream of writes, of changes and of a query.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyarrow import flight

import lakelog

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def rows(first: int, count: int) -> pa.RecordBatch:
    """Rows with new keys."""
    ids = pa.array(range(first, first + count))
    return pa.record_batch([ids, ids.cast(pa.string()), ids.cast(pa.float64())], schema=SCHEMA)


@contextmanager
def server(warehouse: str) -> Iterator[Any]:
    """A client of a server process."""
    command = ["serve", "--warehouse", warehouse, "--port", "0", "--state", f"{warehouse}/_state"]
    process = subprocess.Popen([sys.executable, "-m", "lakelog", *command], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = process.stderr.readline().partition("localhost:")[2].split()[0]
        with flight.connect(f"grpc://127.0.0.1:{port}") as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def write(client: Any, table: str, batches: list[pa.RecordBatch], ahead: int) -> tuple[list[float], float]:
    """Seconds until each answer, and of the whole; ``ahead`` batches wait for their answers at a time."""
    request = orjson.dumps({"write": {"table": table, "writer": "bench"}})
    writer, answers = client.do_put(flight.FlightDescriptor.for_command(request), SCHEMA)
    first = orjson.loads(answers.read().to_pybytes())["epoch"] + 1
    sent: list[float] = []
    took: list[float] = []
    began = time.perf_counter()
    for number, batch in enumerate(batches):
        sent.append(time.perf_counter())
        writer.write_with_metadata(batch, str(first + number).encode())
        if number >= ahead - 1:
            answers.read()
            took.append(time.perf_counter() - sent[len(took)])
    while len(took) < len(sent):
        answers.read()
        took.append(time.perf_counter() - sent[len(took)])
    seconds = time.perf_counter() - began
    writer.done_writing()
    writer.close()
    return sorted(took), seconds


def measured(scale: float) -> dict[str, float]:
    """The figures."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as warehouse, lakelog.connect(warehouse=warehouse) as lake:
        columns = {"id": "bigint not null", "name": "string", "amount": "double"}
        for table, options in (("db.log", {"log-store.enabled": "true"}), ("db.files", {})):
            lake.create_table(table, columns, primary_key=["id"], options={"bucket": "1", **options})
        with server(warehouse) as client:
            for table in ("db.log", "db.files"):
                write(client, table, [rows(number, 1) for number in range(50)], 1)
                took, _ = write(client, table, [rows(number, 1) for number in range(int(1_000 * scale))], 1)
                figures[f"{table} ack p50 ms"] = took[len(took) // 2] * 1e3
                figures[f"{table} ack p99 ms"] = took[int(len(took) * 0.99)] * 1e3
                size, count = 50_000, int(40 * scale)
                _, seconds = write(client, table, [rows(number * size, size) for number in range(count)], 3)
                figures[f"{table} written rows/s"] = size * count / seconds
            total = size * count
            began, seen = time.perf_counter(), 0
            request = {"changes": {"table": "db.log", "position": "earliest"}}
            reader = client.do_get(flight.Ticket(orjson.dumps(request)))
            while seen < total:
                seen += reader.read_chunk().data.num_rows
            figures["db.log changes rows/s"] = seen / (time.perf_counter() - began)
            reader.cancel()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the batches")
    arguments = parser.parse_args()
    figures = measured(arguments.scale)
    for name, value in figures.items():
        print(f"{name:28} {value:14,.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

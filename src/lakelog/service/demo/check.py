"""Compares a table's files with the fold of its log, row by row, as a plain consumer of debezium-json sees it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.lake import Table

_SHOWN = 5


@dataclass(frozen=True)
class CheckResult:
    """Result of the comparison; ``equal`` is True only if every row was compared and all are the same."""

    equal: bool
    rows_compared: int
    log_rows: int
    differences: tuple[str, ...]


def check_equal(table: Table) -> CheckResult:
    """Folds the whole log by key and compares it with the batch read.

    The fold uses nothing of lakelog: key and value bytes, ``op`` c/u sets the row to ``after``, d removes it, and a
    record without a value is skipped. Memory: the newest value of each key.
    """
    keys = list(table.primary_keys)
    state, log_rows = fold_log(table)
    files = pl.from_arrow(table.scan().to_arrow())
    assert isinstance(files, pl.DataFrame)
    folded = _decode(state, files.schema)
    only_log = folded.join(files, on=keys, how="anti")
    only_files = files.join(folded, on=keys, how="anti")
    both = folded.join(files, on=keys, how="inner", suffix="_files")
    values = [c for c in files.columns if c not in keys]
    differ = both.filter(~pl.all_horizontal([pl.col(c).eq_missing(pl.col(f"{c}_files")) for c in values]))
    faults = [
        *(f"only in the log: {row}" for row in only_log.head(_SHOWN).iter_rows(named=True)),
        *(f"only in the files: {row}" for row in only_files.head(_SHOWN).iter_rows(named=True)),
        *(f"different: {row}" for row in differ.head(_SHOWN).iter_rows(named=True)),
    ]
    compared = max(folded.height, files.height)
    return CheckResult(not faults and both.height == compared, compared, log_rows, tuple(faults))


def fold_log(table: Table) -> tuple[pl.DataFrame, int]:
    """The newest value (column ``value``, JSON text of ``after``) per key (column ``key``), and the number of records
    with a value.
    """
    state = pl.DataFrame(schema={"key": pl.String, "value": pl.String})
    records = 0
    for chunk in table.log_records():
        with_value = chunk.filter(pc.is_valid(chunk.column("value")))
        records += with_value.num_rows
        text = pa.table(
            {"key": with_value["key"].cast(pa.large_string()), "value": with_value["value"].cast(pa.large_string())}
        )
        new = pl.from_arrow(text)
        assert isinstance(new, pl.DataFrame)
        state = pl.concat([state, new]).unique("key", keep="last", maintain_order=True)
    dead = pl.col("value").str.json_path_match("$.op") == "d"
    return state.filter(~dead), records


def _decode(state: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    texts = pl.Struct({name: _json_type(kind) for name, kind in schema.items()})
    rows = state.select(pl.col("value").str.json_decode(pl.Struct({"after": texts})).struct.field("after")).unnest(
        "after"
    )
    return rows.select(_parsed(name, kind) for name, kind in schema.items())


def _json_type(kind: pl.DataType) -> pl.DataType:
    return pl.String() if isinstance(kind, pl.Datetime | pl.Date | pl.Time | pl.Decimal) else kind


def _parsed(name: str, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(kind, pl.Datetime):
        plain = column.str.strip_suffix("Z").str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit=kind.time_unit)
        return plain.dt.replace_time_zone(kind.time_zone) if kind.time_zone else plain
    if isinstance(kind, pl.Date):
        return column.str.to_date()
    return column.cast(kind)


@dataclass(frozen=True)
class DemoSettings:
    """A run of the demo.

    ``log`` None is the log system of the address. ``address`` None starts a server if the log system needs one and
    lakelog has it (``service.servers.SERVERS``). ``warehouse`` None creates a temporary directory. ``rate`` is in
    rows/s and applies while latency is measured.
    """

    seconds: float = 60.0
    log: str | None = None
    address: str | None = None
    warehouse: str | None = None
    rate: int = 1000


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the creation of a row until a reader has it, over ``samples`` rows."""

    p50: float
    p99: float
    samples: int = 0


@dataclass(frozen=True)
class CarrierDelay:
    """One line of the live aggregate: a carrier, its arrived flights, their mean delay in minutes."""

    carrier: str
    flights: int
    mean_delay: float


@dataclass(frozen=True)
class DemoProgress:
    """The progress of a running demo. A latency is None before its first row."""

    stage: str
    elapsed_s: float
    total_s: float
    rows_sent: int = 0
    rows_read: int = 0
    file_rows: int = 0
    snapshots: int = 0
    log_latency_ms: Latency | None = None
    tail_latency_ms: Latency | None = None
    file_latency_ms: Latency | None = None
    aggregate: tuple[CarrierDelay, ...] = ()


@dataclass(frozen=True)
class DemoReport:
    """The results of a finished demo.

    ``rows_per_second`` is the rate of the burst at the end, written and read at the same time. ``log_latency_ms`` is
    Spark to log to Spark, ``tail_latency_ms`` Spark to log to ``tail()``, ``file_latency_ms`` until a batch read sees
    the row. ``equal`` is True only if every row of the batch read was compared with the fold of the log and all were
    the same; ``rows_compared`` is their number.
    """

    log: str
    seconds: float
    rows_sent: int
    log_rows: int
    rows_per_second: float
    log_latency_ms: Latency | None
    tail_latency_ms: Latency | None
    file_latency_ms: Latency | None
    equal: bool
    rows_compared: int
    snapshots: int
    table: str
    table_path: str
    warehouse: str
    differences: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The report as one JSON object, the latencies as objects with p50, p99 and samples."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2).decode()

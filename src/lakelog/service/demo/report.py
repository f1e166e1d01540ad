"""What the demo is asked to do, what it says while it runs, and what it found."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson


@dataclass(frozen=True)
class DemoSettings:
    """A run of the demo.

    ``log`` None is the log system of the address; ``address`` None starts a server where the log system needs one and
    lakelog has it (``service.servers.SERVERS``); ``warehouse`` None makes a temporary directory; ``rate`` is
    in rows/s and holds while latency is measured.
    """

    seconds: float = 60.0
    log: str | None = None
    address: str | None = None
    warehouse: str | None = None
    rate: int = 1000


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the moment a row was made to the moment a reader had it, over ``samples`` rows."""

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
    """A moment of a running demo. A latency is None before its first row."""

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
    """The figures of a finished demo.

    ``rows_per_second`` is the rate of the burst at the end, written and read at once. ``log_latency_ms`` is Spark to
    log to Spark, ``tail_latency_ms`` Spark to log to ``tail()``, ``file_latency_ms`` until a batch read sees the row.
    ``equal`` is true only if every row of the batch read was compared with the fold of the log and all were the same;
    ``rows_compared`` says how many these were.
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

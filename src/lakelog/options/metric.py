"""One declared metric: its name in both worlds, kind, unit, labels and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["", "seconds", "bytes"]

_OTEL_UNITS: Final[dict[str, str]] = {"": "1", "seconds": "s", "bytes": "By"}

DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper limits, in seconds, of the buckets of a histogram of durations."""


@dataclass(frozen=True)
class Metric:
    """Declaration of a metric, which its counter, its exporters and its page use.

    ``counter``: a sum that only grows, of one process; ``gauge``: what is so now, computed from the table when somebody
    asks; ``histogram``: how many of something took how long. ``labels`` are the names of its labels, in order;
    ``limits`` the upper limits of a histogram's buckets.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("table",)
    unit: Unit = ""
    limits: tuple[float, ...] = ()

    @property
    def base(self) -> str:
        """The name in Prometheus without the endings that belong to a kind."""
        ending = f"_{self.unit}" if self.unit and self.unit not in self.name else ""
        return f"lakelog_{self.name}{ending}"

    @property
    def prometheus(self) -> str:
        """The name in Prometheus; a histogram has it with ``_bucket``, ``_sum`` and ``_count``."""
        return f"{self.base}_total" if self.kind == COUNTER else self.base

    @property
    def otel(self) -> str:
        """The name in OpenTelemetry, which keeps the unit apart."""
        return f"lakelog.{self.name}"

    @property
    def otel_unit(self) -> str:
        """The unit as OpenTelemetry writes it (UCUM)."""
        return _OTEL_UNITS[self.unit]

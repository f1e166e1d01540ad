"""lakelog: one table, two speeds: a log for seconds and files for minutes, on Spark, in Python.

``lakelog.connect("./warehouse")`` is the way in. Nothing heavy is imported before it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakelog import errors
from lakelog.errors import LakelogError
from lakelog.options.registry import Registry

if TYPE_CHECKING:
    from lakelog.lake import HIGH_THROUGHPUT, LOW_LATENCY, Lake, Table, attach, connect, open_table
    from lakelog.paimon.rows.variants import Variant as variant
    from lakelog.service.metrics.api import METRICS as metrics

__all__ = [
    "HIGH_THROUGHPUT", "LOW_LATENCY", "Lake", "LakelogError", "Table", "__version__", "attach", "connect",
    "errors", "metrics", "open_table", "variant",
]  # fmt: skip

__version__: Final = "0.1.0"

_LATE: Final[Registry[Any]] = Registry(
    "name in lakelog",
    {
        "HIGH_THROUGHPUT": "lakelog.lake:HIGH_THROUGHPUT",
        "LOW_LATENCY": "lakelog.lake:LOW_LATENCY",
        "attach": "lakelog.lake:attach",
        "connect": "lakelog.lake:connect",
        "Lake": "lakelog.lake:Lake",
        "Table": "lakelog.lake:Table",
        "metrics": "lakelog.service.metrics.api:METRICS",
        "open_table": "lakelog.lake:open_table",
        "variant": "lakelog.paimon.rows.variants:Variant",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Loads what ``__all__`` names when they are asked for, so that ``import lakelog`` is instant."""
    if name not in _LATE:
        raise AttributeError(f"module 'lakelog' has no attribute '{name}'")
    return _LATE.load(name)

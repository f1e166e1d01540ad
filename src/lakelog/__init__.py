"""lakelog: one table, two speeds: a log for seconds and files for minutes, on Spark, in Python.

``lakelog.connect("./warehouse")`` is the way in. Nothing heavy is imported before it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakelog import errors
from lakelog.errors import LakelogError
from lakelog.options.registry import Registry

if TYPE_CHECKING:
    from lakelog.filestore.skipping.predicate import Predicate
    from lakelog.lake import (
        HIGH_THROUGHPUT,
        LOW_LATENCY,
        Lake,
        Result,
        Table,
        attach,
        connect,
        open_table,
        pipe,
        scan_polars,
    )
    from lakelog.lake.cut import LakeCut
    from lakelog.lake.table.changes import MergeBuilder
    from lakelog.paimon.metadata.snapshot import Snapshot
    from lakelog.paimon.metadata.tag import Tag
    from lakelog.paimon.rows.variants import Variant as variant
    from lakelog.service.metrics.api import METRICS as metrics
    from lakelog.service.metrics.api import Metrics
    from lakelog.table.health.health import TableHealth
    from lakelog.table.maintenance.compaction_commit import CompactionSummary
    from lakelog.table.model.row_counts import RowCounts
    from lakelog.table.read.base import TableScan
    from lakelog.table.tail.tail import AsyncTail, Tail
    from lakelog.table.write.overwrite import OverwriteWriter
    from lakelog.table.write.table_writer import TableWriter

__all__ = [
    "AsyncTail", "CompactionSummary", "HIGH_THROUGHPUT", "LOW_LATENCY", "Lake", "LakeCut", "LakelogError",
    "MergeBuilder", "Metrics", "OverwriteWriter", "Predicate", "Result", "RowCounts", "Snapshot", "Table",
    "TableHealth", "TableScan", "TableWriter", "Tag", "Tail", "__version__", "attach", "connect", "errors",
    "metrics", "open_table", "pipe", "scan_polars", "variant",
]  # fmt: skip

__version__: Final = "0.2.0"

_LATE: Final[Registry[Any]] = Registry(
    "name in lakelog",
    {
        "HIGH_THROUGHPUT": "lakelog.lake:HIGH_THROUGHPUT",
        "LOW_LATENCY": "lakelog.lake:LOW_LATENCY",
        "attach": "lakelog.lake:attach",
        "AsyncTail": "lakelog.table.tail.tail:AsyncTail",
        "CompactionSummary": "lakelog.table.maintenance.compaction_commit:CompactionSummary",
        "LakeCut": "lakelog.lake.cut:LakeCut",
        "MergeBuilder": "lakelog.lake.table.changes:MergeBuilder",
        "Metrics": "lakelog.service.metrics.api:Metrics",
        "OverwriteWriter": "lakelog.table.write.overwrite:OverwriteWriter",
        "Predicate": "lakelog.filestore.skipping.predicate:Predicate",
        "Result": "lakelog.lake.output.result:Result",
        "RowCounts": "lakelog.table.model.row_counts:RowCounts",
        "Snapshot": "lakelog.paimon.metadata.snapshot:Snapshot",
        "TableHealth": "lakelog.table.health.health:TableHealth",
        "TableScan": "lakelog.table.read.base:TableScan",
        "TableWriter": "lakelog.table.write.table_writer:TableWriter",
        "Tag": "lakelog.paimon.metadata.tag:Tag",
        "Tail": "lakelog.table.tail.tail:Tail",
        "pipe": "lakelog.lake:pipe",
        "scan_polars": "lakelog.lake:scan_polars",
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

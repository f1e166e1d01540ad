"""Finds aggregates that would count retractions as rows, in the plan of a stream: whatever view or frame they pass."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from lakelog.errors import UnsupportedFeature
from lakelog.spark.engine.plan_nodes import ChangingReads, looks_at_kinds, nodes
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.sql.query.signed_aggregates import retractions_refused

_COUNTS: Final = {
    "Aggregate": "an aggregate", "Window": "a window function", "Distinct": "DISTINCT",
    "Deduplicate": "dropDuplicates", "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
}  # fmt: skip
"""Operators that take each change as a row."""


def check_retractions(frame: DataFrame, source: type[LakelogDataSource]) -> None:
    """Raises UnsupportedFeature for an aggregate over changes with retractions that no expression looks at.

    Called for each streaming frame that lakelog plans or writes; ``source`` opens the tables. On Spark Connect the
    client has no plan, so nothing is checked.
    """
    if is_remote() or not frame.isStreaming:
        return
    plan = frame._jdf.queryExecution().analyzed()
    ctes = {node.id(): node.child() for node in nodes(plan) if node.nodeName() == "CTERelationDef"}
    reads = ChangingReads(source)
    for node in nodes(plan):
        what = _COUNTS.get(node.nodeName())
        below = [] if what is None else list(nodes(node, ctes))
        if what is None or any(looks_at_kinds(one) for one in below):
            continue
        for relation in below:
            table = reads.table_of(relation)
            if table is not None:
                raise UnsupportedFeature(retractions_refused(what, table.name))

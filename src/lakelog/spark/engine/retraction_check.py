"""Finds aggregates that would count retractions as rows, in the plan of a stream: whatever view or frame they pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from lakelog.errors import UnsupportedFeature
from lakelog.options.log import CHANGELOG_MODES
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.sql.query.signed_aggregates import retractions_refused
from lakelog.table.model.dynamic_table import DynamicTable

_COUNTS: Final = {
    "Aggregate": "an aggregate", "Window": "a window function", "Distinct": "DISTINCT",
    "Deduplicate": "dropDuplicates", "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
}  # fmt: skip
"""Operators that take each change as a row."""
_PASSED: Final = re.compile(rf"{ROW_KIND_COLUMN}#\d+|cast\({ROW_KIND_COLUMN}#\d+ as string\) AS {ROW_KIND_COLUMN}#\d+")
_NAMED: Final = f"{ROW_KIND_COLUMN}#"


def check_retractions(frame: DataFrame, source: type[LakelogDataSource]) -> None:
    """Raises UnsupportedFeature for an aggregate over changes with retractions that no expression looks at.

    Called for each streaming frame that lakelog plans or writes; ``source`` opens the tables. On Spark Connect the
    client has no plan, so nothing is checked.
    """
    if is_remote() or not frame.isStreaming:
        return
    plan = frame._jdf.queryExecution().analyzed()
    common = {node.id(): node for node in _nodes(plan, {}) if node.nodeName() == "CTERelationDef"}
    for node in _nodes(plan, {}):
        what = _COUNTS.get(node.nodeName())
        below = [] if what is None else list(_nodes(node, common))
        if what is None or any(_looks_at_kinds(one) for one in below):
            continue
        for relation in below:
            table = _changing(relation, source)
            if table is not None:
                raise UnsupportedFeature(retractions_refused(what, table.name))


def _nodes(plan: Any, common: Mapping[int, Any]) -> Iterator[Any]:
    """The operators of a plan; a reference to a common table expression has its plan, too."""
    todo = [plan]
    while todo:
        node = todo.pop()
        yield node
        children = node.children()
        todo += [children.apply(at) for at in range(children.size())]
        if common and node.nodeName() == "CTERelationRef":
            todo.append(common[node.cteId()])


def _looks_at_kinds(node: Any) -> bool:
    """Whether an expression of an operator uses the row kind; a projection may only pass it on."""
    if node.nodeName().startswith("StreamingRelation"):
        return False
    expressions = node.expressions()
    texts = [expressions.apply(at).toString() for at in range(expressions.size())]
    return any(_NAMED in text and not _PASSED.fullmatch(text) for text in texts)


def _changing(node: Any, source: type[LakelogDataSource]) -> DynamicTable | None:
    """The table whose changes a relation reads, if retractions can be among them."""
    if not node.nodeName().startswith("StreamingRelation") or node.sourceName() != source.name():
        return None
    table = source(dict(node.extraOptions().asCaseSensitiveMap())).opened("read")
    if not table.reads_log:
        return table if table.schema.is_keyed else None
    return None if table.options.need(CHANGELOG_MODES) == "append-only" else table

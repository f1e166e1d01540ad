"""The operators of Spark's plans, and the reads of changes among them; Spark Connect has no plan on the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from lakelog.options.log import CHANGELOG_MODES
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.runtime.types import items
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.sql.runtime.query_plan import LOOKUP_LEFT
from lakelog.table.model.dynamic_table import DynamicTable

_KIND: Final = rf"{ROW_KIND_COLUMN}#\d+"
_PASSED: Final = re.compile(rf"{_KIND}|cast\({_KIND} as string\) AS {_KIND}|struct\(.*\) AS {LOOKUP_LEFT}\d+#\d+")
"""A projection that passes the row kind on: by itself, in a view, or in a row that is looked up."""
MAPS: Final = ("MapInArrow", "PythonMapInArrow", "MapInPandas")
"""Functions of Python, whose rows keep the kind if it is one of their columns; lookup joins are such, too."""
_NAMED: Final = f"{ROW_KIND_COLUMN}#"


def nodes(plan: Any, ctes: Mapping[int, Any] = MappingProxyType({})) -> Iterator[Any]:
    """The operators of a plan; a reference to a common table expression of ``ctes`` has its operators, too."""
    todo = [plan]
    while todo:
        node = todo.pop()
        yield node
        todo += items(node.children())
        if node.nodeName() == "CTERelationRef" and node.cteId() in ctes:
            todo.append(ctes[node.cteId()])


def looks_at_kinds(node: Any) -> bool:
    """Whether an expression of an operator uses the row kind; a projection may only pass it on."""
    if node.nodeName().startswith("StreamingRelation") or node.nodeName() in MAPS:
        return False
    texts = [expression.toString() for expression in items(node.expressions())]
    return any(_NAMED in text and not _PASSED.fullmatch(text) for text in texts)


@dataclass
class ChangingReads:
    """The streaming reads of a plan whose rows may be retractions; ``source`` opens their tables, once."""

    source: type[LakelogDataSource]
    _known: dict[str, DynamicTable | None] = field(default_factory=dict)

    def table_of(self, node: Any) -> DynamicTable | None:
        """The table whose changes an operator reads; None if it reads none, or inserts only."""
        if not node.nodeName().startswith("StreamingRelation") or node.sourceName() != self.source.name():
            return None
        options = dict(node.extraOptions().asCaseSensitiveMap())
        text = str(sorted(options.items()))
        if text not in self._known:
            self._known[text] = self._opened(options)
        return self._known[text]

    def _opened(self, options: dict[str, str]) -> DynamicTable | None:
        table = self.source(options).opened("read")
        return table if reads_changes(table) else None


def reads_changes(table: DynamicTable) -> bool:
    """Whether a streaming read of a table may have retractions."""
    return table.options.need(CHANGELOG_MODES) != "append-only" if table.reads_log else table.schema.is_keyed


def streams_changes(table: DynamicTable) -> bool:
    """Whether a query of this use of a table is a stream of its log that may have retractions."""
    return table.streams_log and reads_changes(table)

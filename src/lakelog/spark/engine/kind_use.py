"""Which reads of changes a query looks at as changes: those whose row kind it uses. The others are netted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.engine.plan_nodes import MAPS
from lakelog.spark.native.native_scan import python_frame
from lakelog.spark.read.batch_reader import RELATION_OPTION
from lakelog.spark.read.task_frame import TASKS_OF
from lakelog.spark.runtime.types import items, quoted
from lakelog.spark.session.attach import spark_sql
from lakelog.sql.runtime.query_plan import Source
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import scan_of

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def unused_kinds(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> set[str]:
    """The reads (``RELATION_OPTION``) in a text of Spark whose row kind no operator needs, however deep in views."""
    state: Any = spark._jsparkSession.sessionState()
    jvm: Any = spark._jvm
    if text.lstrip().upper().startswith(_QUERIES):
        plan = spark_sql(spark, text, frames)._jdf.queryExecution().analyzed()
    else:  # a command would run
        skipped = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        plan = state.executePlan(state.sqlParser().parsePlan(text), skipped).analyzed()
    seen, used = set[str](), set[str]()
    for root in _roots(plan):
        used |= set(_live(state.optimizer().execute(root), seen, used).values())
    return seen - used


def has_kinds(table: DynamicTable, source: Source) -> bool:
    """True if a source is a range of a log with its row kinds, which the query may not need."""
    if source.columns is not None and ROW_KIND_COLUMN not in source.columns:
        return False
    return table.view is None and table.reads_log and not table.streams_log


def netted_rows(spark: SparkSession, table: DynamicTable, source: Source) -> DataFrame:
    """The rows that the changes of a source add up to, each of kind +I."""
    scan = scan_of(table)
    names = source.columns or scan.row_schema.field_names
    kept = [name for name in names if name != ROW_KIND_COLUMN] or [scan.row_schema.field_names[0]]
    rows = python_frame(spark, scan.select(kept), source.filter)
    return rows.withColumn(ROW_KIND_COLUMN, sf.lit("+I")).select(*(quoted(name) for name in names))


def _roots(plan: Any) -> Iterator[Any]:
    """The query, or the queries in a command."""
    inner = [] if items(plan.children()) else items(plan.innerChildren())
    for node in inner or [plan]:
        if hasattr(node, "innerChildren") and node is not plan and not items(node.children()):
            yield from _roots(node)
        else:
            yield node


def _live(node: Any, seen: set[str], used: set[str]) -> dict[int, str]:
    """The row kinds in the output of an operator, by id of their expressions; adds reads, and those that are used."""
    name = _relation_of(node)
    if name is not None:
        seen.add(name)
        return {a.exprId().id(): name for a in items(node.output()) if a.name() == ROW_KIND_COLUMN}
    below: dict[int, str] = {}
    for child in items(node.children()):
        below |= _live(child, seen, used)
    for subquery in items(node.subqueries()):
        used |= set(_live(subquery, seen, used).values())
    named = {a.exprId().id() for a in items(node.references().toSeq())}
    passed = {a.exprId().id() for a in items(node.output())}
    used |= {name for at, name in below.items() if at in named or node.nodeName() == "Union"}
    return {at: name for at, name in below.items() if at in passed}


def _relation_of(node: Any) -> str | None:
    """The name of a read of lakelog's, None for any other operator."""
    if node.nodeName().startswith("RelationV2") or "DataSourceV2" in node.getClass().getSimpleName():
        relation = node.relation() if "Scan" in node.getClass().getSimpleName() else node
        label: str | None = relation.options().get(RELATION_OPTION)
        return label
    if node.nodeName() in MAPS:
        name = str(node.functionExpr().name())
        return name.removeprefix(TASKS_OF) if name.startswith(TASKS_OF) else None
    return None

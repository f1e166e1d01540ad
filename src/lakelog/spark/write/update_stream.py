"""Streaming aggregation into a table with a primary key: each micro-batch of changed groups is one epoch.

Spark's Python sinks accept the output mode ``append`` only, so the rows of ``update`` come by ``foreachBatch``. Its
tasks write one attempt each and this process commits them, as ``stream_writer.py`` does for rows that Spark appends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.merge.table_rules import engine_class
from lakelog.options.log import CHANGES, LOG_CONTENT
from lakelog.options.table import MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.failures import refuses_mode
from lakelog.spark.runtime.types import items
from lakelog.spark.write.append_stream import each_batch
from lakelog.table.model.dynamic_table import DynamicTable

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")


def start_update(table: DynamicTable, frame: DataFrame, checkpoint: str, refused: AnalysisException) -> Any:
    """Starts a query that writes the changed groups of a streaming aggregation; returns the StreamingQuery.

    ``refused`` is Spark's refusal to append the frame's rows. It is raised again if the frame has no aggregation.
    Raises InvalidRequest, before the query starts, for a table or a query that does not fit.
    """
    if not refuses_mode(refused) or "aggregation" not in str(refused):
        raise refused
    what = f"the aggregation of a stream into table {table.name}"
    _check_table(table, what)
    if is_remote():
        raise UnsupportedFeature(f"{what} cannot run on Spark Connect: start it from a session that is not remote")
    _check_groups(frame, table, what)
    _check_nulls(frame, table, what)
    try:
        return each_batch(table, frame, checkpoint).outputMode("update").start()
    except AnalysisException as failed:
        said = str(failed).strip().partition("\n")[0]
        raise InvalidRequest(f"{what} is not supported: leave out what Spark cannot update. Spark: {said}") from failed


def _check_table(table: DynamicTable, what: str) -> None:
    """Raises InvalidRequest for a table in which a row does not replace the older one of its group."""
    if not table.schema.is_keyed:
        raise InvalidRequest(
            f"{what} needs a primary key, because each group is one row: create the table with the columns of GROUP BY "
            "as PRIMARY KEY, or append finished groups by withWatermark"
        )
    engine = table.options.need(MERGE_ENGINE)
    if not engine_class(table.options).newest_wins:
        raise InvalidRequest(
            f"{what} needs a table whose newest row wins, and '{MERGE_ENGINE.key}' = '{engine}' merges its rows: "
            f"create the table without '{MERGE_ENGINE.key}'"
        )
    for option in (SEQUENCE_FIELD, ROWKIND_FIELD):
        if table.options.get_typed(option) is not None:
            raise InvalidRequest(
                f"{what} does not go with '{option.key}' = '{table.options.get(option.key, '')}', because the newest "
                "row of a group must win or delete it: create the table without this option"
            )
    if table.emits_log and table.changelog_mode == "all":
        raise InvalidRequest(
            f"{what} has no old rows for its log with 'log.changelog-mode' = 'all': create the table with "
            f"'{LOG_CONTENT.key}' = '{CHANGES}', whose log takes them from the files, or with "
            "'log.changelog-mode' = 'upsert'"
        )


def _check_groups(frame: DataFrame, table: DynamicTable, what: str) -> None:
    """Raises InvalidRequest unless each group is the row of one key, and no group leaves the result unseen."""
    state = frame.sparkSession._jsparkSession.sessionState()
    node = state.optimizer().execute(frame._jdf.queryExecution().analyzed())
    output = {a.name(): a for a in items(node.output())}
    keys = table.schema.primary_keys
    missing = [key for key in keys if key not in output]
    if missing:
        raise InvalidRequest(f"{what} lacks the primary key column '{missing[0]}': add it to GROUP BY and SELECT")
    columns: Mapping[str, Any] = {key: output[key] for key in keys}
    while (kind := _kind(node)) == "Project":
        columns, node = _below(columns, node.projectList()), node.child()
    if kind == "Filter":
        raise InvalidRequest(
            f"{what} must not filter groups, because a group that leaves the filter would stay in the table: write "
            "INSERT INTO … SELECT over the log, which deletes such groups, or give them "
            f"'{ROW_KIND_COLUMN}' = '-D'"
        )
    if kind != "Aggregate":
        raise InvalidRequest(f"{what} must end with the aggregation, and {kind} follows it: leave it out")
    groups, found = items(node.groupingExpressions()), set[int]()
    for key, column in _below(columns, node.aggregateExpressions()).items():
        of_key = [i for i, group in enumerate(groups) if group.semanticEquals(column)]
        if not of_key and not column.foldable():
            raise InvalidRequest(
                f"{what} must group by the primary key, and '{key}' is not one of the GROUP BY expressions, but "
                f"{column.sql()}: group by it"
            )
        found.update(of_key[:1])
    if other := [group.sql() for i, group in enumerate(groups) if i not in found]:
        raise InvalidRequest(
            f"{what} must group by the primary key ({', '.join(keys)}) only, and also groups by {other[0]}: several "
            "groups would be one row. Add this column to the primary key"
        )


def _check_nulls(frame: DataFrame, table: DynamicTable, what: str) -> None:
    """Raises InvalidRequest for NULL that the table does not keep.

    It is NULL in a key column with a default, or in a NOT NULL column of the row of a deleted group.
    """
    for key in table.schema.primary_keys:
        if table.schema.field(key).default_value is not None and frame.schema[key].nullable:
            raise InvalidRequest(
                f"{what} may have NULL in the key column '{key}', which becomes the column's default: two groups would "
                f"be one row. Use coalesce, or drop the default (ALTER TABLE … ALTER COLUMN {key} DROP DEFAULT)"
            )
    if ROW_KIND_COLUMN not in frame.columns:
        return
    for field in table.schema.fields:
        column = frame.schema[field.name] if field.name in frame.columns else None
        if field.name not in table.schema.primary_keys and not field.type.nullable and column and column.nullable:
            raise InvalidRequest(
                f"{what} may have NULL in column '{field.name}', which is NOT NULL, for a group without rows: allow "
                f"NULL (ALTER TABLE … ALTER COLUMN {field.name} DROP NOT NULL), or use coalesce"
            )


def _below(columns: Mapping[str, Any], named: Any) -> dict[str, Any]:
    """The expressions that produce columns, from the named expressions of the node that has them."""
    by_id = {item.exprId().id(): item for item in items(named)}
    found = {}
    for name, column in columns.items():
        is_name = _kind(column) == "AttributeReference"
        found[name] = _plain(by_id.get(column.exprId().id(), column) if is_name else column)
    return found


def _plain(expression: Any) -> Any:
    """The expression without names, and without casts to wider integers, which keep different values apart."""
    while (kind := _kind(expression)) == "Alias" or (kind == "Cast" and _is_wider(expression)):
        expression = expression.child()
    return expression


def _is_wider(cast: Any) -> bool:
    old, new = cast.child().dataType().simpleString(), cast.dataType().simpleString()
    return old in _INTEGERS and new in _INTEGERS and _INTEGERS.index(old) <= _INTEGERS.index(new)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())

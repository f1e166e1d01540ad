"""Carries row kinds through the plan of a stream into a table, and plans the normalizer of an upsert log.

An update is an old and a new row. Both pass the operators of a query, each on its own: a filter may drop one of them, a
projection may give them two keys. So the sink needs the kind of each row, and the old row of each update, unless the
query keeps the key of the source: then the new row replaces the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.read.changes import producer_of
from lakelog.merge.table_rules import engine_class
from lakelog.options.log import CHANGELOG_MODES, NORMALIZE, READ_MODE
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.kinds import frame_of_plan
from lakelog.spark.engine.plan_nodes import MAPS, ChangingReads, looks_at_kinds, nodes
from lakelog.spark.runtime.types import items
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.sql.runtime.query_plan import LOOKUP_FOUND
from lakelog.table.model.dynamic_table import DynamicTable

_ALIASES: Final = ("SubqueryAlias", "View")
_ROW_BY_ROW: Final = (
    "Filter", "Generate", "RepartitionByExpression", "EventTimeWatermark", "UnresolvedHint", "ResolvedHint",
)  # fmt: skip
_FOLDING: Final = ("Aggregate", "Window", "Distinct", "Deduplicate", "DeduplicateWithinWatermark")
"""Operators that make other rows of the changes; ``check_retractions`` refuses those that do it wrongly."""
_LEFT_JOINS: Final = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti")
_RIGHT_JOINS: Final = ("Inner", "Cross", "RightOuter")


def with_changes(
    frame: DataFrame,
    target: DynamicTable,
    source: type[LakelogDataSource],
    read: Callable[[DynamicTable, tuple[str, ...]], DataFrame],
) -> DataFrame:
    """The frame with ``_row_kind``, and with the old rows of updates, if it reads changes and ``target`` needs them.

    Called for each streaming write of a frame, whatever views and methods it passed. ``source`` opens tables, ``read``
    makes a streaming frame of some columns of one. On Spark Connect the client has no plan, so the frame stays as it
    is. Raises UnsupportedFeature for changes that ``target`` cannot take, and for operators in which they lose their
    kind.
    """
    if is_remote() or not frame.isStreaming:
        return frame
    plans, reads = _Plans(frame), ChangingReads(source)
    plan = plans.inlined(frame._jdf.queryExecution().analyzed(), {})
    changing = [table for node in nodes(plan) if (table := reads.table_of(node)) is not None]
    handled = any(looks_at_kinds(node) for node in nodes(plan))
    if not changing:
        return frame
    if not target.schema.is_keyed:
        if handled:
            return frame
        _check_append(target, changing)
    rewrite = _Rewrite(plans, reads, read, target, *_keeps_key(plan, target, reads))
    if handled or any(node.nodeName() in _FOLDING for node in nodes(plan)):
        return plans.frame_of(rewrite.swapped(plan))
    frame = plans.frame_of(rewrite.carried(plan))
    if rewrite.keeps_key or not target.schema.is_keyed:
        return frame
    # another row of the source may get this key, perhaps in another task: a retraction removes only its own values
    kind = sf.col(ROW_KIND_COLUMN)
    return frame.withColumn(ROW_KIND_COLUMN, sf.when(kind == "-D", "-U").otherwise(kind))


def _check_append(target: DynamicTable, changing: Sequence[DynamicTable]) -> None:
    for table in changing:
        if table.schema.is_keyed and not engine_class(table.options).oldest_wins:
            raise UnsupportedFeature(
                f"table {target.name} has no primary key, so it only takes inserts, and the changes of table "
                f"{table.name} update and delete rows: create {target.name} with a primary key, read inserts only "
                f"('{CHANGELOG_MODES.key}'='append-only' of a log, or WHERE {ROW_KIND_COLUMN} = '+I'), or store the "
                f"kind in a column (SELECT …, {ROW_KIND_COLUMN} AS kind)"
            )


def _keeps_key(plan: Any, target: DynamicTable, reads: ChangingReads) -> tuple[bool, bool]:
    """Whether the key of ``target`` depends on that of one read of changes alone, and the plan only projects rows."""
    by_name = {a.name().lower(): a for a in items(plan.output())}
    if any(key.lower() not in by_name for key in target.schema.primary_keys):
        return True, True  # the write names the missing column
    needed = {by_name[key.lower()].exprId().id() for key in target.schema.primary_keys}
    only_projects = True
    for node in nodes(plan):
        if node.nodeName() == "Project":
            outputs = {item.exprId().id(): item for item in items(node.projectList())}
            used = (outputs[at].references() if at in outputs else None for at in needed)
            kept = {at for at in needed if at not in outputs}
            needed = kept.union(*({a.exprId().id() for a in items(r.toSeq())} for r in used if r is not None))
        elif (table := reads.table_of(node)) is not None:
            own = {a.exprId().id(): a.name() for a in items(node.output())}
            return {own.get(at) for at in needed} == set(table.schema.primary_keys), only_projects
        elif node.nodeName() in MAPS:
            return True, False  # the key cannot be followed
        else:
            only_projects &= node.nodeName() in _ALIASES
    return False, False


@dataclass(frozen=True)
class _Plans:
    """Makes plans of Spark; ``frame`` is one of its session."""

    frame: DataFrame

    @property
    def jvm(self) -> Any:
        return self.frame.sparkSession._jvm

    def frame_of(self, plan: Any) -> DataFrame:
        spark = self.frame.sparkSession
        return frame_of_plan(spark, plan)

    def with_children(self, node: Any, children: Sequence[Any]) -> Any:
        """An operator over other operators."""
        same = all(a is b for a, b in zip(children, items(node.children()), strict=True))
        return node if same else node.withNewChildren(self._seq(children))

    def project(self, columns: Sequence[Any], child: Any) -> Any:
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.Project(self._seq(columns), child)

    def alias(self, value: Any, named: Any) -> Any:
        """A value under the name and the id of an attribute."""
        alias, nothing = self.jvm.org.apache.spark.sql.catalyst.expressions.Alias, self._seq(())
        return alias(value, named.name(), named.exprId(), nothing, self.jvm.scala.Option.empty(), nothing)

    def insert(self) -> Any:
        row = self.frame.sparkSession.sql(f"SELECT '+I' AS {ROW_KIND_COLUMN}")._jdf.queryExecution().analyzed()
        return row.projectList().apply(0)

    def broadcast(self, plan: Any) -> Any:
        """The side of a join that Spark sends to all tasks."""
        return plan if plan.isStreaming() else sf.broadcast(self.frame_of(plan))._jdf.queryExecution().analyzed()

    def inlined(self, plan: Any, ctes: dict[int, Any]) -> Any:
        """The plan with each common table expression in place of the references to it."""
        if plan.nodeName() == "WithCTE":
            ctes |= {definition.id(): definition.child() for definition in items(plan.cteDefs())}
            return self.inlined(plan.plan(), ctes)
        if plan.nodeName() == "CTERelationRef":
            child = self.inlined(ctes[plan.cteId()], ctes)
            pairs = zip(items(child.output()), items(plan.output()), strict=True)
            return self.project([self.alias(mine, named) for mine, named in pairs], child)
        return self.with_children(plan, [self.inlined(child, ctes) for child in items(plan.children())])

    def _seq(self, values: Sequence[Any]) -> Any:
        return self.jvm.PythonUtils.toSeq(list(values))


@dataclass
class _Rewrite:
    """Rewrites the plan of a stream into ``target``."""

    plans: _Plans
    reads: ChangingReads
    read: Callable[[DynamicTable, tuple[str, ...]], DataFrame]
    target: DynamicTable
    keeps_key: bool
    only_projects: bool

    def carried(self, plan: Any) -> Any:
        """The plan with the row kind as a column of its result."""
        plan_after, kind = self._carry(plan)
        if kind is None:
            raise self._without_kind()
        if _named_kind(plan.output()) is not None:
            return plan_after
        kept = [a for a in items(plan_after.output()) if a.exprId().id() != kind.exprId().id()]
        return self.plans.project([*kept, kind], plan_after)

    def swapped(self, plan: Any) -> Any:
        """The plan with the old rows of updates, and the same columns."""
        if self.reads.table_of(plan) is not None:
            return self._relation(plan, adds_kind=False)[0]
        return self.plans.with_children(plan, [self.swapped(child) for child in items(plan.children())])

    def _carry(self, node: Any) -> tuple[Any, Any]:
        """An operator that keeps the row kind, and the attribute of it; None if it has no changes."""
        name = node.nodeName()
        if self.reads.table_of(node) is not None:
            return self._relation(node, adds_kind=True)
        if name in _ALIASES:
            return self._carry(node.children().apply(0))  # names are resolved
        children = items(node.children())
        if not any(self.reads.table_of(below) for below in nodes(node)):
            return node, None
        if name == "Union":
            return self._union(node, [self._carry(child) for child in children])
        if name in ("Join", "LateralJoin"):
            return self._join(node, [self._carry(child) for child in children])
        if name == "Project":
            return self._projected(node, *self._carry(children[0]))
        if name in _ROW_BY_ROW:
            child, kind = self._carry(children[0])
            plan_after = self.plans.with_children(node, [child])
            return plan_after, kind if kind is not None else _named_kind(plan_after.output())
        kind = _named_kind(node.output())
        is_lookup = any(a.name() == LOOKUP_FOUND for a in items(node.output()))
        if name not in MAPS:
            raise self._refused("LIMIT" if name.endswith("Limit") else name, "leave it out")
        if kind is None and not is_lookup:
            raise self._without_kind()
        return self.swapped(node), kind

    def _relation(self, node: Any, adds_kind: bool) -> tuple[Any, Any]:
        """A read with the row kind and, if the sink needs them, with the old rows."""
        table = self.reads.table_of(node)
        assert table is not None
        kind, wanted = _named_kind(node.output()), self._with_old_rows(table, must=adds_kind)
        if wanted is table and (kind is not None or not adds_kind):
            return node, kind
        names = tuple(a.name() for a in items(node.output()) if a.name() != ROW_KIND_COLUMN)
        fresh = self.read(wanted, names)._jdf.queryExecution().analyzed()
        new = {a.name(): a for a in items(fresh.output())}
        same = [self.plans.alias(new[a.name()], a) for a in items(node.output())]
        if kind is None and adds_kind:
            kind = new[ROW_KIND_COLUMN]
            same.append(kind)
        return self.plans.project(same, fresh), kind

    def _with_old_rows(self, table: DynamicTable, must: bool) -> DynamicTable:
        """The read of a table whose changes have old rows. Raises UnsupportedFeature if it cannot have them."""
        if (self.keeps_key and self.only_projects) or not table.schema.is_keyed or not self.target.schema.is_keyed:
            return table
        if table.reads_log:
            is_asked = NORMALIZE.key in table.options or table.changelog_mode != "upsert"
            return table if is_asked else table.with_hints({NORMALIZE.key: "true"})
        if must and producer_of(table.schema) == "none" and not engine_class(table.options).oldest_wins:
            raise UnsupportedFeature(
                f"the files of table {table.name} have no old rows, and a query that filters, joins or changes keys "
                f"needs them: read its log ('{READ_MODE.key}'='log'), or set 'changelog-producer' = 'lookup'"
            )
        return table

    def _projected(self, node: Any, child: Any, kind: Any) -> tuple[Any, Any]:
        columns = items(node.projectList())
        if kind is None:
            return self.plans.with_children(node, [child]), None
        at = kind.exprId().id()
        for item in columns:
            if item.exprId().id() == at:
                return self.plans.with_children(node, [child]), kind
            if item.name() == ROW_KIND_COLUMN and [a.exprId().id() for a in items(item.references().toSeq())] == [at]:
                return self.plans.with_children(node, [child]), item.toAttribute()
        return self.plans.project([*columns, kind], child), kind

    def _join(self, node: Any, sides: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        kinds = [kind for _, kind in sides]
        how, children = str(node.joinType().toString()), [child for child, _ in sides]
        if kinds == [None]:  # a lookup join, which unpacks its rows
            joined = self.plans.with_children(node, children)
            return joined, _named_kind(joined.output())
        if len(sides) > 1 and all(child.isStreaming() for child in children):
            raise self._refused(
                "a join of two streams",
                "join with the current rows of one of them ('read.mode'='union' or 'file'), or by a lookup (FOR "
                "SYSTEM_TIME AS OF)",
            )
        is_left = kinds[0] is not None
        if how not in (_LEFT_JOINS if is_left else _RIGHT_JOINS):
            raise self._refused(f"a {how} join", "make the changes the side of the join that keeps its rows")
        if len(sides) > 1:  # a shuffle would change the order of a key's changes
            children = [child if kind is not None else self.plans.broadcast(child) for child, kind in sides]
        return self.plans.with_children(node, children), kinds[0] if is_left else kinds[1]

    def _union(self, node: Any, plan_after: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        """The union with the kind as last column of each side; rows of a side without changes are inserts."""
        own = _named_kind(node.output())
        if own is not None:
            return self.plans.with_children(node, [child for child, _ in plan_after]), own
        sides = []
        for (child, kind), old in zip(plan_after, items(node.children()), strict=True):
            columns = items(old.output())
            sides.append(self.plans.project([*columns, self.plans.insert() if kind is None else kind], child))
        union = self.plans.with_children(node, sides)
        return union, items(union.output())[-1]

    def _without_kind(self) -> UnsupportedFeature:
        return self._refused("a lookup join or a function of a frame", f"select {ROW_KIND_COLUMN} before it")

    def _refused(self, what: str, how: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"{what} in a stream into table {self.target.name} loses the kinds of the changes (-U, -D), so rows that "
            f"are updated or deleted would stay there: {how}; or read the range of the log as a batch "
            "('streaming'='false')"
        )


def _named_kind(output: Any) -> Any:
    return next((a for a in items(output) if a.name() == ROW_KIND_COLUMN), None)

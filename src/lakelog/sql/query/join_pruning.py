"""Partition pruning by joins, from the values of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.sql.syntax.literals import BITS

_SIMPLE = (*BITS, "DATE", "VARCHAR")


@dataclass(frozen=True)
class JoinKey:
    """A join key: rows of ``node`` need a row of ``other`` whose ``other_column`` equals their ``column``."""

    node: exp.Table
    column: str
    other: exp.Table
    other_column: str


def join_keys(tree: exp.Expr | None, schemas: Mapping[int, TableSchema]) -> list[JoinKey]:
    """The keys by which joins, semi-joins and IN subqueries select partitions; ``schemas`` by ``id`` of the table.

    A row whose partition is missing on the other side is never part of the result.
    """
    if tree is None:
        return []
    return [key for select in tree.find_all(exp.Select) for key in _of_select(select, schemas)]


def values_text(column: DataField, values: Sequence[object]) -> str:
    """The condition that a column has one of some values, as text for ``parse_filter``; always false without values.

    Numbers outside of the column's range are omitted.
    """
    name = exp.column(exp.to_identifier(column.name, quoted=True))
    bits = BITS.get(column.type.root if isinstance(column.type, AtomicType) else "")
    if bits is not None:
        values = [v for v in values if isinstance(v, int) and -(1 << bits - 1) <= v < 1 << bits - 1]
    if not values:
        text = name.sql("spark")
        return f"({text} IS NULL AND {text} IS NOT NULL)"
    literals = [
        exp.Literal.number(str(value)) if isinstance(value, int) else exp.Literal.string(str(value)) for value in values
    ]
    return f"({exp.In(this=name, expressions=literals).sql('spark')})"


def _of_select(select: exp.Select, schemas: Mapping[int, TableSchema]) -> Iterator[JoinKey]:
    first = select.args.get("from_") or select.args.get("from")
    joins = [j for j in select.args.get("joins") or () if isinstance(j, exp.Join)]
    relations = [r for r in (None if first is None else first.this, *(j.this for j in joins)) if r is not None]
    tables = {r.alias_or_name.lower(): r for r in relations if isinstance(r, exp.Table) and id(r) in schemas}
    if len({r.alias_or_name.lower() for r in relations}) < len(relations):
        return
    for join in joins:
        on = join.args.get("on")
        if on is None or join.method or join.kind.upper() not in ("", "INNER", "SEMI", "OUTER"):
            continue
        side = join.side.upper()
        if side in ("", "LEFT"):
            # after an outer join only rows of its own table depend on the other side
            only = join.this if side == "LEFT" and join.kind.upper() != "SEMI" else None
            yield from _equal(on, tables, schemas, only)
    where = select.args.get("where")
    if isinstance(where, exp.Where):
        yield from _equal(where.this, tables, schemas, None)
        for part in _parts(where.this):
            yield from _in_query(part, relations, tables, schemas)


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    return [p for part in condition.flatten() for p in _parts(part)] if isinstance(condition, exp.And) else [condition]


def _equal(
    condition: exp.Expr, tables: Mapping[str, exp.Table], schemas: Mapping[int, TableSchema], only: exp.Expr | None
) -> Iterator[JoinKey]:
    for part in _parts(condition):
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            for one, other in ((part.this, part.expression), (part.expression, part.this)):
                key = _key(tables.get(one.table.lower()), one, tables.get(other.table.lower()), other, schemas)
                if key is not None and (only is None or key.node is only):
                    yield key


def _in_query(
    part: exp.Expr, relations: list[exp.Expr], tables: Mapping[str, exp.Table], schemas: Mapping[int, TableSchema]
) -> Iterator[JoinKey]:
    """``column IN (SELECT other_column FROM other WHERE …)``."""
    query = part.args.get("query") if isinstance(part, exp.In) else None
    inner = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(part.this, exp.Column) or not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return
    source = inner.args.get("from_") or inner.args.get("from")
    chosen = inner.expressions[0]
    others = ("joins", "laterals", "group", "having", "limit", "offset", "distinct", "with_", "with", "qualify")
    if source is None or any(inner.args.get(clause) for clause in others) or not isinstance(chosen, exp.Column):
        return
    column = part.this
    name = column.table.lower() or (relations[0].alias_or_name.lower() if len(relations) == 1 else "")
    other = source.this
    # a column that the inner table lacks belongs to the outer query
    if isinstance(other, exp.Table) and id(other) in schemas and chosen.table.lower() in ("", _name(other)):
        key = _key(tables.get(name), column, other, chosen, schemas)
        if key is not None:
            yield key


def _key(
    node: exp.Table | None,
    column: exp.Column,
    other: exp.Table | None,
    other_column: exp.Column,
    schemas: Mapping[int, TableSchema],
) -> JoinKey | None:
    if node is None or other is None or node is other or column.args.get("db") or other_column.args.get("db"):
        return None
    if any(one.args.get("pivots") or one.args.get("sample") or _renames(one) for one in (node, other)):
        return None
    keys = {name.lower(): name for name in schemas[id(node)].partition_keys}
    there = {name.lower(): name for name in schemas[id(other)].field_names}
    if column.name.lower() not in keys or other_column.name.lower() not in there:
        return None
    names = keys[column.name.lower()], there[other_column.name.lower()]
    kinds = [_root(schemas[id(one)], name) for one, name in zip((node, other), names, strict=True)]
    if kinds[0] != kinds[1] or kinds[0] == "":
        return None
    return JoinKey(node, names[0], other, names[1])


def _name(table: exp.Table) -> str:
    name: str = table.alias_or_name.lower()
    return name


def _renames(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _root(schema: TableSchema, name: str) -> str:
    """The comparison type of a column; columns of the same one compare without a cast; "" for other types."""
    kind = schema.select([name])[0].type
    root = kind.root if isinstance(kind, AtomicType) else ""
    return "BIGINT" if root in BITS else root if root in _SIMPLE else ""

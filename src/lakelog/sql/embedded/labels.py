"""Names that Spark gives to columns of a result without an alias, such as ``count(1)`` and ``(id + 1)``."""

from __future__ import annotations

from sqlglot import exp

_IN_BRACKETS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And,
    exp.Or, exp.Not, exp.Is, exp.In, exp.NullSafeEQ,
)  # fmt: skip


def label_of(node: exp.Expr) -> str:
    """The name of a column, by its expression in the query."""
    while isinstance(node, exp.Paren | exp.Cast) and not (isinstance(node, exp.Cast) and _is_typed_literal(node)):
        inner = node.this
        if isinstance(node, exp.Cast) and not isinstance(inner, exp.Column | exp.Paren | exp.Cast):
            break
        node = inner
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    if isinstance(node, exp.Literal):
        return node.name
    if isinstance(node, exp.Subquery):
        return "scalarsubquery()"
    text: str = _spelled(exp.Paren(this=node.copy())).this.sql(dialect="spark", normalize_functions="lower")
    return text


def _is_typed_literal(node: exp.Cast) -> bool:
    return isinstance(node.this, exp.Literal) and node.this.is_string


def _spelled(root: exp.Expr) -> exp.Expr:
    """Replaces the parts of an expression by what Spark shows of them."""
    for node in list(root.walk(bfs=False)):
        if isinstance(node, exp.Column):
            node.replace(exp.to_identifier(node.name))
        elif isinstance(node, exp.Star) and isinstance(node.parent, exp.Count):
            node.replace(exp.Literal.number(1))
        elif isinstance(node, exp.Literal) and node.is_string and not isinstance(node.parent, exp.Cast):
            node.replace(exp.Var(this=node.this))
        elif isinstance(node, exp.Paren) and node is not root and not isinstance(node.this, _IN_BRACKETS):
            node.replace(node.this)
    for node in list(root.find_all(*_IN_BRACKETS)):
        if not isinstance(node.parent, exp.Paren) or node.parent is root:
            place = exp.Paren()
            node.replace(place)
            place.set("this", node)
    return root

"""The base of all translations of expressions: each method puts a node into the words of DuckDB, in its place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from lakelog.sql.embedded.casts import Part, align
from lakelog.sql.embedded.types import BOOLEAN, NULL, STRING, Kind
from lakelog.state.spark_functions import NeedsSpark

Methods = Sequence[tuple[tuple[type[exp.Expr], ...], Callable[[Any, Any], Kind]]]
"""Nodes, the more special ones first → their translation."""


class Translation(ABC):
    """Translates expressions in place; each method returns the type of a node. They raise NeedsSpark."""

    short_decimals: bool
    """Whether DuckDB may compute decimals with 64 bits, and fail for longer ones."""

    @abstractmethod
    def kind(self, node: exp.Expr) -> Kind:
        """The type of an expression, which is translated. Raises NeedsSpark."""

    def part(self, node: exp.Expr) -> Part:
        """The translation of an expression: what is in its place then, and its type."""
        above, name, index = node.parent, node.arg_key, node.index
        kind = self.kind(node)
        assert above is not None and name is not None
        now = above.args[name]
        return Part(now if index is None else now[index], kind)

    def _parts(self, nodes: Sequence[exp.Expr]) -> list[Part]:
        return [self.part(node) for node in nodes]

    def _kinds(self, nodes: Sequence[exp.Expr]) -> list[Kind]:
        return [part.kind for part in self._parts(nodes)]

    def _texts(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> None:
        for kind in self._kinds(nodes):
            if kind not in (STRING, NULL):
                raise NeedsSpark(f"{node.key} of {kind}")

    def _conditions(self, nodes: Sequence[exp.Expr]) -> None:
        for kind in self._kinds(nodes):
            if kind not in (BOOLEAN, NULL):
                raise NeedsSpark(f"a condition of {kind}")

    def _aligned(self, nodes: Sequence[exp.Expr], node: exp.Expr, in_pairs: bool = False) -> Kind:
        return align(self._parts(nodes), node.key, in_pairs)


def need_number(kind: Kind, node: exp.Expr) -> Kind:
    """A kind of numbers. Raises NeedsSpark for another."""
    if not kind.is_number:
        raise NeedsSpark(f"{node.key} of {kind}")
    return kind


def whole_literal(node: exp.Expr | None) -> int | None:
    """The value of a whole number in a query; None for other expressions."""
    sign, inner = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit():
        return sign * int(inner.name)
    return None

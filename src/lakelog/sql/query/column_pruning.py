"""Column pruning: the columns of each table that a query needs.

Spark prunes no columns of a Python source, so this module selects them. Two rules ensure correctness. Every column that
the text may refer to is kept (Spark has to resolve the name). If a construct is not supported, all columns are kept.
``None`` means all columns, everywhere in this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

Columns = frozenset[str] | None


def _argument(node: exp.Expr, key: str) -> exp.Expr | None:
    """An argument whose key is a Python keyword, to which sqlglot 28 and later append ``_``."""
    clause: exp.Expr | None = node.args.get(key + "_") or node.args.get(key)
    return clause


def relations_of(select: exp.Select) -> Iterator[exp.Expr]:
    """The relations in FROM, JOIN and LATERAL VIEW of a SELECT, without those of its inner queries."""
    first = _argument(select, "from")
    todo = [first.this] if first is not None else []
    todo += [join.this for join in select.args.get("joins") or ()]
    todo += list(select.args.get("laterals") or ())
    while todo:
        node = todo.pop(0)
        yield node
        todo += [join.this for join in node.args.get("joins") or ()]
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query):
            todo.append(node.this)  # FROM (a JOIN b …)


def _alias_columns(relation: exp.Expr) -> list[str]:
    alias = relation.args.get("alias")
    return [c.name.lower() for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []


def _select_of(node: exp.Expr) -> exp.Select | None:
    select = node.find_ancestor(exp.Select)
    return select if isinstance(select, exp.Select) else None


def _name_parts(column: exp.Column) -> list[str]:
    return [part.name.lower() for part in column.parts]


def _qualifiers(parts: list[str], relation: exp.Expr) -> list[int]:
    """The possible numbers of leading parts of a dotted name that name the relation: ``t.id`` 1, ``db.t.id`` 2."""
    names = [relation.alias_or_name.lower()]
    if isinstance(relation, exp.Table) and not relation.args.get("alias"):
        names = [p.lower() for p in (relation.catalog, relation.db, relation.name) if p]
    lengths = range(1, min(len(parts) - 1, 3) + 1)
    # The column may name the database although FROM does not; it is the current one then.
    return [n for n in lengths if parts[:n][-len(names) :] == names[-n:] and parts[n - 1]]


def _is_qualified(parts: list[str], relation: exp.Expr) -> bool:
    """Returns whether a dotted name certainly begins with the relation's name in FROM."""
    most = len([p for p in (relation.catalog, relation.db) if p]) + 1 if isinstance(relation, exp.Table) else 1
    return any(length <= most for length in _qualifiers(parts, relation))


class ColumnUse:
    """Column use of one parsed query.

    ``tables`` maps the ``id()`` of a node to the lower-case columns of a table with a known schema; ``cte_of`` returns
    the common table expression that a table node refers to.
    """

    def __init__(
        self,
        root: exp.Expr,
        tables: Mapping[int, frozenset[str]],
        cte_of: Callable[[exp.Table], exp.CTE | None],
    ) -> None:
        self._root = root
        self._tables = tables
        self._cte_of = cte_of
        self._wanted: dict[int, Columns] = {}
        self._outputs: dict[int, Columns] = {}

    def needed(self, relation: exp.Expr) -> Columns:
        """The lower-case names that the query may use from this relation; None for all."""
        select = _select_of(relation)
        if select is None or not self._is_plain(relation, select):
            return None
        names: set[str] = set()
        for node in select.walk():
            if isinstance(node, exp.Star):
                columns = self._by_star(node, relation, select)
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                columns = self._by_column(node, relation, select)
            elif isinstance(node, exp.Join) and node.args.get("using"):
                columns = frozenset(i.name.lower() for i in node.args["using"])
            else:
                continue
            if columns is None:
                return None
            names |= columns
        return frozenset(names)

    def named(self, relation: exp.Expr) -> frozenset[str]:
        """The lower-case names in the text that may be columns of this relation; stars do not count."""
        select = _select_of(relation)
        names: frozenset[str] = frozenset()
        for node in () if select is None else select.walk():
            if select is not None and isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                names |= self._by_column(node, relation, select)
        return names

    def _is_plain(self, relation: exp.Expr, select: exp.Select) -> bool:
        """Returns whether this SELECT uses the columns of the relation by name only."""
        if not any(r is relation for r in relations_of(select)) or _alias_columns(relation):
            return False
        joins = (join for join in select.find_all(exp.Join) if _select_of(join) is select)
        if any(join.args.get("method") == "NATURAL" for join in joins):
            return False
        if any(_select_of(pivot) is select for pivot in select.find_all(exp.Pivot)):
            return False
        outer = relation.parent
        while outer is not None and outer is not select:
            if isinstance(outer, exp.Subquery) and outer.args.get("alias"):
                return False  # (a JOIN b) x hides the names a and b
            outer = outer.parent
        return True

    def _by_column(self, column: exp.Column, relation: exp.Expr, select: exp.Select) -> frozenset[str]:
        parts = _name_parts(column)
        return self._column_of(parts, relation, select) if self._can_see(column, parts, select) else frozenset()

    def _column_of(self, parts: list[str], relation: exp.Expr, select: exp.Select) -> frozenset[str]:
        """The columns of this relation that a dotted name may refer to."""
        qualifiers = _qualifiers(parts, relation) if len(parts) > 1 else []
        others = (r for r in relations_of(select) if r is not relation) if len(parts) > 1 else ()
        if not qualifiers and any(_is_qualified(parts, r) for r in others):
            return frozenset()
        known = self._outputs_of(relation)
        # A name may also be a struct column with its field, so its first part always counts.
        first = parts[:1] if known is None or parts[0] in known else []
        return frozenset([*first, *(parts[length] for length in qualifiers)])

    def _can_see(self, node: exp.Expr, parts: list[str], select: exp.Select) -> bool:
        """Returns whether a name at this node can refer to the SELECT's relations, because no inner scope has it."""
        ids = {id(r) for r in relations_of(select)}
        outer: exp.Expr | None = node
        while outer is not None and outer is not select:
            if isinstance(outer, exp.With) and outer.parent is select:
                return False
            if id(outer) in ids and isinstance(outer, exp.Subquery) and isinstance(outer.this, exp.Query):
                return False  # a derived table does not see its neighbours; LATERAL ones are of another class
            if isinstance(outer, exp.Select) and self._is_resolved_in(outer, parts):
                return False
            outer = outer.parent
        return outer is select

    def _is_resolved_in(self, select: exp.Select, parts: list[str]) -> bool:
        for relation in relations_of(select):
            if _is_qualified(parts, relation):
                return True
            known = self._outputs_of(relation)
            if known is not None and parts[0] in known:
                return True
        return False

    def _by_star(self, star: exp.Star, relation: exp.Expr, select: exp.Select) -> Columns:
        qualified = star.parent if isinstance(star.parent, exp.Column) else None
        owner = _select_of(star)
        if owner is None:
            return None
        if qualified is None:
            if owner is not select or isinstance(star.parent, exp.Count):
                return frozenset()
        else:
            parts = _name_parts(qualified)
            if not self._can_see(qualified, parts, select):
                return frozenset()
            if not _qualifiers(parts, relation):
                return self._column_of(parts, relation, select)  # the fields of a struct column
        holder = qualified or star
        plain = owner is select and any(p is holder for p in owner.expressions) and not any(star.args.values())
        return self._wanted_from(select) if plain else None

    def _wanted_from(self, select: exp.Select) -> Columns:
        """The output columns of a SELECT that the outer query uses, which a star in it must include."""
        if id(select) not in self._wanted:
            self._wanted[id(select)] = None  # a recursive query needs all columns
            self._wanted[id(select)] = self._find_wanted(select)
        return self._wanted[id(select)]

    def _find_wanted(self, select: exp.Select) -> Columns:
        if any(select.args.get(key) for key in ("distinct", "group", "having")) or _has_ordinals(select):
            return None
        inner: exp.Expr = select
        while isinstance(inner.parent, exp.Subquery):
            inner = inner.parent
            if any(value for key, value in inner.args.items() if key not in ("this", "alias")):
                return None
            around = _select_of(inner)
            if around is not None and any(r is inner for r in relations_of(around)):
                return self.needed(inner)
        if isinstance(inner.parent, exp.Exists):
            return frozenset()
        if isinstance(inner.parent, exp.CTE):
            return self._wanted_from_cte(inner.parent)
        return None

    def _wanted_from_cte(self, cte: exp.CTE) -> Columns:
        if _alias_columns(cte) or (cte.parent is not None and cte.parent.args.get("recursive")):
            return None
        names: frozenset[str] = frozenset()
        for table in self._root.find_all(exp.Table):
            if self._cte_of(table) is cte:
                columns = self.needed(table)
                if columns is None:
                    return None
                names |= columns
        return names

    def _outputs_of(self, relation: exp.Expr) -> Columns:
        """The lower-case column names of a relation; None if unknown."""
        if id(relation) not in self._outputs:
            self._outputs[id(relation)] = None
            self._outputs[id(relation)] = self._find_outputs(relation)
        return self._outputs[id(relation)]

    def _find_outputs(self, relation: exp.Expr) -> Columns:
        renamed = _alias_columns(relation)
        if renamed:
            return frozenset(renamed)
        if isinstance(relation, exp.Table):
            if id(relation) in self._tables:
                return self._tables[id(relation)]
            cte = self._cte_of(relation)
            return None if cte is None else frozenset(_alias_columns(cte)) or self._query_outputs(cte.this)
        if isinstance(relation, exp.Subquery) and isinstance(relation.this, exp.Query):
            return self._query_outputs(relation.this)
        return None

    def _query_outputs(self, query: exp.Expr) -> Columns:
        while isinstance(query, exp.Subquery | exp.SetOperation):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        names: set[str] = set()
        for projection in query.expressions:
            if isinstance(projection, exp.Star) or (
                isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
            ):
                for relation in relations_of(query):
                    outputs = self._outputs_of(relation)
                    if outputs is None:
                        return None
                    names |= outputs
            elif isinstance(projection, exp.Alias | exp.Column):
                names.add(projection.output_name.lower())  # other expressions get a name only from Spark
        return frozenset(names)


def _has_ordinals(select: exp.Select) -> bool:
    """Returns whether ORDER BY or a similar clause refers to output columns by number."""
    for key in ("order", "sort", "cluster", "distribute"):
        clause = select.args.get(key)
        for item in clause.expressions if clause is not None else ():
            if isinstance(item.this if isinstance(item, exp.Ordered) else item, exp.Literal):
                return True
    return False

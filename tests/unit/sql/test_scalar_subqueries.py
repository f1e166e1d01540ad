"""Scalar subqueries over one table become one, and every other subquery stays as the user wrote it."""

from __future__ import annotations

import pytest

from lakelog.catalog.base import Identifier
from lakelog.sql.query.scalar_subqueries import folded
from lakelog.sql.runtime.query_plan import QueryPlan, Source

COLUMNS = ("id", "q", "x", "y")


def plan_of(text: str, *views: Source) -> QueryPlan:
    return folded(QueryPlan(text, views), lambda source: COLUMNS)


def view(name: str, *columns: str, filter: str | None = None, **more: str) -> Source:
    return Source(name, Identifier("d", "t"), columns, more, filter)


def test_subqueries_over_one_table_are_one_read_of_their_columns_and_rows() -> None:
    found = plan_of(
        "select case when (select count(*) from v1 a where a.q between 1 and 20) > 5 then "
        "(select avg(x) from v2 where q between 1 and 20) else (select max(y) / 2 from v3 where q > 90) end as b",
        view("v1", "q", filter="(q between 1 and 20)"),
        view("v2", "q", "x", filter="(q between 1 and 20)"),
        view("v3", "q", "y", filter="(q > 90)"),
    )
    common = (
        "(SELECT named_struct('v0', COUNT(*) FILTER(WHERE q BETWEEN 1 AND 20), 'v1', AVG(x) FILTER(WHERE q BETWEEN 1 "
        "AND 20), 'v2', MAX(y) FILTER(WHERE q > 90) / 2) FROM v1 WHERE (q BETWEEN 1 AND 20) OR (q > 90))"
    )
    assert found.text == f"select case when {common}.v0 > 5 then {common}.v1 else {common}.v2 end as b"
    assert found.sources == (view("v1", "q", "x", "y", filter="((q between 1 and 20)) OR ((q > 90))"),)


def test_one_without_a_condition_reads_all_rows_and_others_keep_theirs() -> None:
    found = plan_of(
        "explain select id from v0 where x > (select min(x) from v1) and y < (select max(y) from v2 where q = 3)",
        view("v0", "id", "x", "y"), view("v1", "x"), view("v2", "q", "y", filter="(q = 3)"),
    )  # fmt: skip
    common = "(SELECT named_struct('v0', MIN(x), 'v1', MAX(y) FILTER(WHERE q = 3)) FROM v1)"
    assert found.text == f"explain select id from v0 where x > {common}.v0 and y < {common}.v1"
    assert found.sources == (view("v0", "id", "x", "y"), view("v1", "q", "x", "y"))


@pytest.mark.parametrize(
    "subquery",
    [
        "(select max(x) from v2 where q = o.id)",  # of each row
        "(select max(x) from v2 group by q)",
        "(select x from v2)",
        "(select max(x + 1) from v2)",  # may fail for a row that another subquery alone reads
        "(select max(distinct x) from v2)",
        "(select count(x, y) from v2)",
        "(select max(x) from v2 where q = rand())",
        r"(select max(x) from v2 where q = 'a\nb')",
        "(select max(x) from v2 where q in (select 1))",
        "(select max(x) from v2 limit 1)",
        "(select max(v2.x) from v2 join v0 on true)",
    ],
)
def test_any_other_subquery_stays(subquery: str) -> None:
    text = f"select o.id from v0 o where o.x > (select min(x) from v1) and o.y > {subquery}"
    views = view("v0", "id", "x", "y"), view("v1", "x"), view("v2", "q", "x")
    assert plan_of(text, *views) == QueryPlan(text, views)


@pytest.mark.parametrize(
    "text",
    [
        "select (select min(x) from v1), (select max(x) from v2)",  # the text names the columns of the result
        "select 1 + (select min(x) from v1), (select max(x) from v2) as b",
        "select * from (select min(x) from v1) a, (select max(x) from v2) b",
        "select id from v0 where x in (select min(x) from v1) or x in (select max(x) from v2)",
        "select id from v0 where exists (select min(x) from v1) and exists (select max(x) from v2)",
    ],
)
def test_a_subquery_that_names_a_column_or_has_rows_stays(text: str) -> None:
    views = view("v0", "id", "x"), view("v1", "x"), view("v2", "x")
    assert plan_of(text, *views) == QueryPlan(text, views)


def test_reads_with_other_options_are_other_relations() -> None:
    text = "select id from v0 where x > (select min(x) from v1) and x < (select max(x) from v2)"
    views = view("v0", "id", "x"), view("v1", "x", tag="a"), view("v2", "x", tag="b")
    assert plan_of(text, *views) == QueryPlan(text, views)

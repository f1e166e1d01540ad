from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.sql.dml.row_changes import with_row_kind
from lakelog.sql.query.predicate_pushdown import pushed_predicate
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.statements.show import create_table_text

TYPES = {"id": "INT", "v": "INT", "d": "DOUBLE", "s": "STRING", "day": "DATE"}
SCHEMA = new_schema(
    [(name, parse_type(kind), None) for name, kind in TYPES.items()],
    ("id",),
    (),
    {"bucket": "1", "properties.sasl.password": "hunter2", "properties.security.protocol": "SASL_SSL"},
    None,
    0,
)


def pushed(query: str) -> str | None:
    tree = sqlglot.parse_one(query, dialect="spark")
    table = next(t for t in tree.find_all(exp.Table) if t.name == "t")
    return pushed_predicate(table, SCHEMA)


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("select * from t where id = 1 and s like 'a%'", "(id = 1) AND (s LIKE 'a%')"),
        ("select * from t where day = '2024-01-02'", "(day = '2024-01-02')"),
        ("select * from t x join u on x.id = u.id where x.v > 2 and u.v = 1", "(v > 2)"),
        ("select * from t where d > 5", None),
        ("select * from t where d = 5", "(d = 5)"),
        ("select * from t where d = 9007199254740993", None),
        ("select * from t where id = '1'", None),
        ("select * from t where s = 1", None),
        ("select * from t where v is null", None),
        ("select * from t where length(s) = 1", None),
        ("select * from t as a(v, id) where a.id = 1", None),
        ("select * from t pivot (sum(v) for s in ('a' as v)) where v = 1", None),
        ("select * from t join u where v = 1", None),
        ("select id, count(*) from t group by id having id = 1", None),
    ],
)
def test_only_conditions_that_mean_the_same_below_are_pushed(query, want) -> None:
    assert pushed(query) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("select id, v from log where v > 1", "select id, v, _row_kind from log where v > 1"),
        ("select id, v -- value\nfrom log", "select id, v, _row_kind -- value\nfrom log"),
        ("select id, v is distinct from 3 from log", "select id, v is distinct from 3, _row_kind from log"),
        ("select count(*) from log", None),
        ("select * from log", None),
        ("select distinct id from log", None),
    ],
)
def test_row_kinds_go_along_where_each_row_is_a_row_of_the_log(text, want) -> None:
    source = Source("log", Identifier("db", "log"), ("id", "v"), {})
    found = with_row_kind(QueryPlan(text, (source,)), source)
    assert (None if found is None else found.text) == want


def test_show_create_table_prints_no_secret() -> None:
    text = create_table_text(Identifier("db", "t"), SCHEMA)
    assert "hunter2" not in text and "SASL_SSL" in text

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakelog.catalog.base import Identifier
from lakelog.errors import CommitConflict, NotFound, UnsupportedStatement
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.sql.parse import Session, parse_script
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.syntax.type_parser import parse_type_text
from lakelog.table.model.row_counts import row_counts
from lakelog.table.write.dml_support import DmlSupport


class OneTable:
    """A catalog with the table db.t (id int, name string)."""

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        columns = [("id", parse_type_text("int"), None), ("name", parse_type_text("string"), None)]
        return new_schema(columns) if identifier == Identifier("db", "t") else None

    def list_catalogs(self) -> list[str]:
        return []

    def list_databases(self, catalog: str) -> list[str]:
        return ["db"]

    def list_tables(self, database: str, catalog: str) -> list[str]:
        return ["t"]

    def canonical_options(self, given: dict[str, str], scope: str) -> dict[str, str]:
        return dict(given)


class ChangingTable(OneTable):
    """The same table, whose rows may change."""

    def changeable(self, *_: object) -> DmlSupport:
        return DmlSupport(False, False)


class Plans:
    """An engine that keeps the plans it is given, and fails with ``failure`` when it has one."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.plans: list[QueryPlan] = []
        self.failure = failure

    def is_spark_relation(self, name: str) -> bool:
        return False

    def run_query(self, plan: QueryPlan) -> object:
        if self.failure is not None:
            raise self.failure
        self.plans.append(plan)
        return len(self.plans)

    def checks_casts(self) -> bool:
        return True

    def check_assignments(self) -> None:
        """It has no rule of its own."""

    def simple_types(self, table: Identifier) -> dict[str, str]:
        return {}

    def files_of(self, *_: object) -> list[str]:
        return ["f"]

    def insert(self, table: Identifier, plan: QueryPlan, *_: object) -> object:
        return self.run_query(plan)


class Busy(Plans):
    """An engine whose files others have replaced before it can, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def replace_files(self, table: Identifier, plan: QueryPlan, *_: object) -> object:
        self.times -= 1
        if self.times >= 0:
            raise CommitConflict("a file is gone")
        self.run_query(plan)
        return row_counts()


def session(engine: Plans, **arguments: str) -> Session:
    return Session(OneTable(), engine, **arguments)  # type: ignore[arg-type]


def test_one_result_a_statement_in_order() -> None:
    engine = Plans()
    assert session(engine).run("select id from db.t; -- nothing\n; select name from db.t") == [1, 2]
    assert [s.columns for p in engine.plans for s in p.sources] == [("id",), ("name",)]
    assert session(engine).run(" -- only a comment\n;") == []


def test_no_statement_is_run_when_a_later_one_is_malformed() -> None:
    engine = Plans()
    with pytest.raises(UnsupportedStatement, match="line 2, column 8"):
        session(engine).run("select id from db.t;\nselect (id")
    assert engine.plans == []


@pytest.mark.parametrize("statement", ["use nowhere", "use hive.db", "use catalog hive", "use arctic.nowhere"])
def test_a_failed_use_leaves_the_session_as_it_was(statement: str) -> None:
    opened = session(Plans())
    opened.run("use db")
    with pytest.raises(NotFound):
        opened.run(statement)
    assert opened.database == "db"


def test_a_failed_use_leaves_the_catalog_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneTable, "list_catalogs", lambda self: ["prod"])
    opened = session(Plans())
    opened.run("use prod.db")
    with pytest.raises(NotFound):
        opened.run("use lakelog.nowhere")
    assert (opened.current_catalog, opened.database) == ("prod", "db")


def test_a_catalog_has_its_own_name_and_the_former_ones() -> None:
    opened = session(Plans(), catalog="house")
    for name in ("house", "HOUSE", "arctic", "amoro", "catalog"):
        opened.run(f"use catalog {name}; select id from {name}.db.t")
    with pytest.raises(NotFound, match="catalog 'lakelog' does not exist. Known: house, arctic, amoro, catalog"):
        opened.run("use catalog lakelog")


def test_views_of_two_sessions_never_meet() -> None:
    engine = Plans()
    for _ in range(2):
        opened = session(engine)
        opened.run("select id from db.t; select id from db.t a join db.t b using (id)")
    views = [s.view for p in engine.plans for s in p.sources]
    assert len(set(views)) == len(views) == 6


def test_the_same_statement_has_the_same_identity_in_every_session() -> None:
    engine = Plans()
    hint = "/*+ OPTIONS('read.mode'='log', 'a'='b') */"
    session(engine).run(f"insert into db.t select id, name from db.t {hint}")
    session(engine).run(f"select 1; use db; insert into t   select id, name from t {hint}")
    session(engine).run("insert into db.t select id, name from db.t")
    first, _, second, other = (p.identity for p in engine.plans)
    assert first == second != other


def test_identity_distinguishes_views_with_similar_names() -> None:
    sources = tuple(Source(f"v{i}", Identifier("db", f"t{i}"), None, {}) for i in (1, 10))
    assert QueryPlan("select * from v1, v10", sources).identity == "select * from db.t1[], db.t10[]"


class Refused(Exception):
    pass


def test_an_engines_failure_of_an_understood_text_is_its_own() -> None:
    with pytest.raises(Refused):
        session(Plans(Refused("no"))).run("select id from db.t")


@pytest.mark.parametrize("head", ["", "insert into db.t ", "explain "])
def test_an_engine_error_of_an_unparsed_statement_points_into_the_users_text(head: str) -> None:
    with pytest.raises(UnsupportedStatement, match=r"(?s)line 2, column 12: .*\n           \^\nSpark: no$") as caught:
        session(Plans(Refused("no\nmore"))).run(f"{head}select id from db.t\nwhere id = = 1")
    assert isinstance(caught.value.__cause__, Refused)


def test_a_long_list_of_values_is_handed_on_as_it_is() -> None:
    engine = Plans()
    values = ", ".join(f"({i}, 'x{i}')" for i in range(20_000))
    session(engine).run(f"insert into db.t values {values}")
    assert engine.plans == [QueryPlan(f"values {values}", ())]


def test_a_statement_keeps_its_own_text_without_the_comments_around_it() -> None:
    texts = [s.source.text for s in parse_script("-- a\nset x = 1 -- b\n; /* c */ set /* d */ y = ';' ;")]
    assert texts == ["set x = 1", "set /* d */ y = ';'"]


def test_a_statement_with_repeated_conflicts_names_a_remedy() -> None:
    engine = Busy(times=4)
    Session(ChangingTable(), engine).run("delete from db.t where id = 1")  # type: ignore[arg-type]
    assert len(engine.plans) == 1
    with pytest.raises(CommitConflict, match=r"db\.t.* 5 times .* changed nothing; run it again"):
        Session(ChangingTable(), Busy(times=5)).run("delete from db.t where id = 1")  # type: ignore[arg-type]

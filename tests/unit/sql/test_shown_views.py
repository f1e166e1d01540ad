"""Statements that show a materialized view name it one, and print the statement that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect


@pytest.mark.parametrize("refresh", ["on commit", "manual", "every 90 seconds", "every 1500 milliseconds", "every 2 h"])
def test_show_create_prints_a_statement_that_makes_the_same_view(tmp_path: Path, refresh: str) -> None:
    with connect(str(tmp_path)) as lake:
        lake.sql("create table db.a (id int, g string, primary key (id)); insert into db.a values (1, 'x'), (2, 'x')")
        lake.sql(
            "create materialized view db.`my view` comment 'it''s' tblproperties ('log-store.enabled' = 'false', "
            f"'commit.interval' = '5 s') refresh {refresh} as select g, count(*) as `how many` from db.a group by g"
        )
        text = lake.sql("show create table db.`my view`").to_pylist()[0]["createtab_stmt"]
        assert text.startswith("CREATE MATERIALIZED VIEW db.`my view`\nCOMMENT 'it")
        assert "materialized-view" not in text, "the definition is in the words of the statement"
        known = lake.table("db.`my view`")
        before = known.definition, known.scan().to_arrow().to_pylist()
        lake.sql("drop materialized view db.`my view`")
        lake.sql(text)
        again = lake.table("db.`my view`")
        assert lake.sql("show create table db.`my view`").to_pylist()[0]["createtab_stmt"] == text
        assert (again.definition.fields, again.definition.comment) == (before[0].fields, "it's")
        assert again.scan().to_arrow().to_pylist() == before[1]


def test_describe_names_a_view_and_shows_its_query(tmp_path: Path) -> None:
    with connect(str(tmp_path)) as lake:
        lake.sql("create table db.a (id int, primary key (id))")
        lake.sql("create materialized view db.v refresh manual as select id from db.a")
        rows = lake.sql("describe extended db.v").to_pylist()
        assert "# materialized view" in [row["col_name"] for row in rows]
        facts = {row["col_name"]: row["data_type"] for row in rows}
        assert (facts["query"], facts["sources"], facts["refresh"]) == ("select id from db.a", "db.a", "manual")
        assert "materialized-view" not in facts
        assert "# table" in [row["col_name"] for row in lake.sql("describe extended db.a").to_pylist()]
        kinds = [lake.sql(f"describe detail db.{name}").to_pylist()[0]["type"] for name in ("a", "v")]
        assert kinds == ["table", "materialized view"]
        assert lake.list_tables("db") == ["db.a", "db.v"]
        (shown,) = lake.sql("show table extended in db like 'v'").to_pylist()
        assert "# materialized view" in shown["information"]

"""The right that each statement needs is declared once, beside its matcher."""

from __future__ import annotations

import pytest

from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.statements import STATEMENTS

READ = (
    "SHOW",
    "DESC",
    "USE",
    "SET CATALOG",
    "SELECT",
    "FROM",
    "TABLE",
    "VALUES",
    "WITH",
    "(",
    "EXPLAIN",
    "REFRESH TABLE",
)
ADMIN = ("CALL", "OPTIMIZE", "ALTER TABLE COMPACT", "VACUUM", "RESTORE")
PLACES = ("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG")


@pytest.mark.parametrize("keywords", list(STATEMENTS))
def test_every_statement_declares_its_right_itself(keywords: str) -> None:
    needs = vars(STATEMENTS.load(keywords)).get("needs")
    assert isinstance(needs, Privilege), keywords
    of_places = keywords.split()[-1] in PLACES and keywords.split()[0] in ("CREATE", "ALTER", "DROP")
    wanted = Privilege.READ if keywords.startswith(READ) else Privilege.WRITE
    assert needs is (Privilege.ADMIN if of_places or keywords in ADMIN else wanted), keywords


def test_a_right_has_those_below_it() -> None:
    assert Privilege.READ < Privilege.WRITE < Privilege.ADMIN
    assert [right.word for right in Privilege] == ["read", "write", "admin"]

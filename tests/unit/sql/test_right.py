"""The right that each statement needs is declared once, beside its matcher."""

from __future__ import annotations

import pytest

from lakelog.sql.runtime.privilege import Right
from lakelog.sql.statements import STATEMENTS

READ = ("SHOW", "DESC", "USE", "SET CATALOG", "SELECT", "FROM", "TABLE", "VALUES", "WITH", "(", "REFRESH")
ADMIN = ("CALL", "OPTIMIZE", "VACUUM", "RESTORE")
PLACES = ("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG")


@pytest.mark.parametrize("keywords", list(STATEMENTS))
def test_every_statement_declares_its_right_itself(keywords: str) -> None:
    needs = vars(STATEMENTS.load(keywords)).get("needs")
    assert isinstance(needs, Right), keywords
    of_places = keywords.split()[-1] in PLACES and keywords.split()[0] in ("CREATE", "ALTER", "DROP")
    wanted = Right.READ if keywords.startswith(READ) else Right.WRITE
    assert needs is (Right.ADMIN if of_places or keywords in ADMIN else wanted), keywords


def test_a_right_has_those_below_it() -> None:
    assert Right.READ < Right.WRITE < Right.ADMIN
    assert [right.word for right in Right] == ["read", "write", "admin"]

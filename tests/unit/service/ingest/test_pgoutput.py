"""Messages of ``pgoutput`` as PostgreSQL 15 has sent them, and such as no server sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.errors import Corrupt
from lakelog.service.ingest.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    Truncate,
    Update,
    decode,
)

RECORDED = [
    bytes.fromhex(line)
    for line in (Path(__file__).parents[3] / "recorded" / "pgoutput-15.tsv").read_text(encoding="ascii").splitlines()
]


@pytest.fixture
def messages() -> list[Message]:
    return [decode(data) for data in RECORDED]


def test_transactions_have_the_lsn_of_their_commit_record(messages) -> None:
    begins, commits = ([m for m in messages if isinstance(m, kind)] for kind in (Begin, Commit))
    assert [b.final_lsn for b in begins] == [c.lsn for c in commits]
    assert all(c.lsn < c.end_lsn for c in commits)
    assert all(c.end_lsn <= b.final_lsn for c, b in zip(commits, begins[1:], strict=False))


def test_relations_have_columns_with_their_types_and_keys(messages) -> None:
    first = next(m for m in messages if isinstance(m, Relation))
    assert (first.schema, first.name, first.identity) == ("public", "t", "d")
    assert [(c.name, c.type_id, c.is_key) for c in first.columns] == [
        ("id", 23, True),
        ("v", 25, False),
        ("n", 1700, False),
        ("big", 25, False),
    ]


def test_rows_have_texts_nulls_and_unchanged_values(messages) -> None:
    inserts, updates, deletes = ([m for m in messages if isinstance(m, kind)] for kind in (Insert, Update, Delete))
    assert inserts[0].new[:3] == [b"1", "ä".encode(), b"1.50"] and len(inserts[0].new[3]) == 6400
    assert updates[0] == Update(updates[0].relation, None, [b"1", None, b"1.50", UNCHANGED])
    assert updates[1].old == [b"1", None, None, None] and updates[1].new == [b"2", None, b"1.50", UNCHANGED]
    assert updates[2].old == [b"ok"] and updates[2].new == [None]
    assert [d.old for d in deletes] == [[b"2", None, None, None]]


def test_a_truncation_names_all_tables(messages) -> None:
    (found,) = (m for m in messages if isinstance(m, Truncate))
    assert set(found.relations) == {m.id for m in messages if isinstance(m, Relation)}
    assert {m.kind for m in messages if isinstance(m, Other)} == {"Y"}


def test_a_message_that_is_cut_off_is_corrupt() -> None:
    for data in RECORDED:
        if data[:1] in b"OYM":
            continue
        for length in range(len(data) - 1 if len(data) < 200 else 60):
            with pytest.raises(Corrupt, match="cannot be read"):
                decode(data[:length])


@pytest.mark.parametrize("data", [b"", b"Z123", b"I\0\0\0\1X", b"D\0\0\0\1N", b"I\0\0\0\1N\0\1z"])
def test_an_unknown_message_is_corrupt(data) -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        decode(data)

"""Parser of the actions of ALTER TABLE, in Spark's and Flink's dialect → changes of the schema.

``COLUMN`` or ``COLUMNS`` in the text selects Spark's dialect, which determines the type of a bare ``timestamp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakelog.paimon.schema.changes import (
    FIRST,
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangePosition,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    after,
)
from lakelog.paimon.schema.constraint_changes import AddConstraint, DropConstraint
from lakelog.sql.ddl.check_clause import read_check
from lakelog.sql.syntax.clauses import LOCATION_RULE, SORT_RULE
from lakelog.sql.syntax.lexer import Token
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.sql.syntax.type_parser import Dialect, parse_default, parse_type

_MOST_PARTS = 9
_COMMENT = "comment"
_NOT_COLUMNS = {
    "WATERMARK": "name the column of the event time in the option 'watermark.column', and its 'watermark.delay'",
    "PRIMARY": "the primary key is fixed when a table is created; create a new table and copy the rows",
    "CONSTRAINT": "write ADD CONSTRAINT name CHECK (condition), or DROP CONSTRAINT name, one in a statement",
    "UNIQUE": "UNIQUE is not supported; lakelog enforces primary keys only",
    "DISTRIBUTION": "buckets are changed by the option 'bucket': ALTER TABLE … SET TBLPROPERTIES ('bucket' = '8')",
    "PARTITION": "partitions are created and removed with their rows; no ALTER TABLE is needed",
    "PARTITIONS": "partitions are created and removed with their rows; no ALTER TABLE is needed",
}

_PARTITION_KEYS = "partition keys are columns, fixed when a table is created; create a new table and copy the rows"
_OF_OTHER_SYSTEMS = {
    ("CLUSTER", "BY"): SORT_RULE,
    ("WRITE",): SORT_RULE,
    ("ADD", "PARTITION", "FIELD"): _PARTITION_KEYS,
    ("DROP", "PARTITION", "FIELD"): _PARTITION_KEYS,
    ("REPLACE", "PARTITION", "FIELD"): _PARTITION_KEYS,
    ("SET", "IDENTIFIER", "FIELDS"): _NOT_COLUMNS["PRIMARY"],
    ("DROP", "IDENTIFIER", "FIELDS"): _NOT_COLUMNS["PRIMARY"],
    ("SET", "LOCATION"): LOCATION_RULE,
}
"""Clauses of other systems, and their replacements."""


@dataclass(frozen=True)
class Alteration:
    """One change, and the token of the text for error messages about it."""

    change: SchemaChange
    start_token: Token


def read_alterations(cursor: TokenStream) -> list[Alteration]:
    """Reads all changes to the end of the statement. Raises UnsupportedStatement at unsupported text."""
    for words, why in _OF_OTHER_SYSTEMS.items():
        if cursor.at_words(*words):
            cursor.fail(f"{' '.join(words)} is not supported: {why}")
    read = next((read for words, read in _CLAUSES if cursor.accept_words(*words)), None)
    if read is None:
        cursor.fail_expected(
            "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, CHANGE, MODIFY, SET TBLPROPERTIES, "
            "UNSET TBLPROPERTIES, SET, RESET or RENAME TO"
        )
    alterations = list(read(cursor))
    cursor.expect_end()
    return alterations


def _listed(cursor: TokenStream, read: Callable[[], Iterator[Alteration]]) -> Iterator[Alteration]:
    """One column, several with commas, or several in parentheses."""
    enclosed = cursor.accept_symbol("(")
    while True:
        _check_is_column(cursor)
        yield from read()
        if not cursor.accept_symbol(","):
            break
    if enclosed:
        cursor.expect_symbol(")", " or ',' after a column")


def _dialect(cursor: TokenStream) -> Dialect:
    return Dialect.SPARK if cursor.accept_words("COLUMNS") or cursor.accept_words("COLUMN") else Dialect.FLINK


def _check_is_column(cursor: TokenStream) -> None:
    token, second = cursor.peek(), cursor.peek(1)
    if token is None or second is None:
        return
    follows = {"WATERMARK": "FOR", "PRIMARY": "KEY"}.get(token.text.upper())
    for word, why in _NOT_COLUMNS.items():
        if token.is_word(word) and (follows is None or second.is_word(follows)) and not second.is_symbol(","):
            cursor.fail(why)


def _path(cursor: TokenStream, what: str = "a column name") -> tuple[tuple[str, ...], Token]:
    start_token = cursor.peek()
    name = cursor.name(what, _MOST_PARTS)
    assert start_token is not None
    return name.parts, start_token


def _position(cursor: TokenStream) -> Position | None:
    if cursor.accept_words("FIRST"):
        return FIRST
    if cursor.accept_words("AFTER"):
        return after(cursor.name_part("a column name after AFTER"))
    return None


def _comment_and_position(cursor: TokenStream) -> tuple[str | None, Position | None]:
    """``[COMMENT '…'] [FIRST | AFTER other]``, in any order."""
    comment: str | None = None
    position: Position | None = None
    while True:
        if comment is None and cursor.accept_words("COMMENT"):
            comment = cursor.text_literal("the comment of the column")
        elif position is None and (found := _position(cursor)) is not None:
            position = found
        else:
            return comment, position


def _read_add(cursor: TokenStream, dialect: Dialect) -> Iterator[Alteration]:
    path, start_token = _path(cursor)
    if cursor.at_words("AS") or cursor.at_words("METADATA"):
        cursor.fail(f"column '{path[-1]}' is computed, which is not supported; compute it in the query or in a view")
    kind = parse_type(cursor, dialect)
    comment, position = _comment_and_position(cursor)
    if cursor.at_words("DEFAULT"):
        cursor.fail(
            "in Spark the default of a new column also fills old rows, here it does not: add the column, then SET "
            "DEFAULT"
        )
    yield Alteration(AddColumn(path, kind, comment, position), start_token)


def _read_adds(cursor: TokenStream) -> Iterator[Alteration]:
    dialect = _dialect(cursor)
    yield from _listed(cursor, lambda: _read_add(cursor, dialect))


def _read_drops(cursor: TokenStream) -> Iterator[Alteration]:
    _dialect(cursor)
    if_exists = cursor.accept_words("IF", "EXISTS")
    yield from _listed(cursor, lambda: _read_drop(cursor, if_exists))


def _read_drop(cursor: TokenStream, if_exists: bool) -> Iterator[Alteration]:
    path, start_token = _path(cursor)
    yield Alteration(DropColumn(path, if_exists), start_token)


def _read_modifies(cursor: TokenStream) -> Iterator[Alteration]:
    dialect = _dialect(cursor)
    yield from _listed(cursor, lambda: _read_modify(cursor, dialect))


def _read_modify(cursor: TokenStream, dialect: Dialect) -> Iterator[Alteration]:
    """Flink's ``MODIFY name type [NOT NULL] [COMMENT '…'] [FIRST | AFTER other]``."""
    path, start_token = _path(cursor)
    yield from _changed_column(cursor, path, start_token, dialect, nullable_too=True)


def _changed_column(
    cursor: TokenStream, path: tuple[str, ...], start_token: Token, dialect: Dialect, nullable_too: bool
) -> Iterator[Alteration]:
    kind = parse_type(cursor, dialect)
    comment, position = _comment_and_position(cursor)
    yield Alteration(ChangeType(path, kind, keep_nullable=not nullable_too and kind.nullable), start_token)
    if comment is not None:
        yield Alteration(ChangeComment(path, comment), start_token)
    if position is not None:
        yield Alteration(ChangePosition(path, position), start_token)


def _read_change(cursor: TokenStream) -> Iterator[Alteration]:
    """``CHANGE [COLUMN] old new type …`` (Hive's), or the actions of ALTER COLUMN."""
    cursor.accept_words("COLUMN")
    path, start_token = _path(cursor)
    token = cursor.peek()
    if token is None or token.is_word(*_ACTIONS):
        yield from _actions(cursor, path, start_token)
        return
    new_name = cursor.name_part("the new name of the column")
    changed = (*path[:-1], new_name)
    if new_name != path[-1]:
        yield Alteration(RenameColumn(path, new_name), start_token)
    yield from _changed_column(cursor, changed, start_token, Dialect.SPARK, nullable_too=False)


_ACTIONS = ("TYPE", "COMMENT", "FIRST", "AFTER", "SET", "DROP")


def _read_alter(cursor: TokenStream) -> Iterator[Alteration]:
    """``ALTER [COLUMN] a TYPE bigint, b COMMENT '…'``."""
    cursor.accept_words("COLUMN")
    while True:
        path, start_token = _path(cursor)
        yield from _actions(cursor, path, start_token)
        if not cursor.accept_symbol(","):
            return


def _actions(cursor: TokenStream, path: tuple[str, ...], start_token: Token) -> Iterator[Alteration]:
    change: SchemaChange
    at = cursor.at
    while True:
        if cursor.accept_words("TYPE"):
            kind = parse_type(cursor, Dialect.SPARK)
            change = ChangeType(path, kind, keep_nullable=kind.nullable)
        elif cursor.accept_words("COMMENT"):
            change = ChangeComment(path, cursor.text_literal(f"the comment of column '{'.'.join(path)}'"))
        elif cursor.accept_words("SET", "NOT", "NULL"):
            change = ChangeNullability(path, nullable=False)
        elif cursor.accept_words("DROP", "NOT", "NULL"):
            change = ChangeNullability(path, nullable=True)
        elif cursor.accept_words("SET", "DEFAULT"):
            change = ChangeDefault(path, parse_default(cursor))
        elif cursor.accept_words("DROP", "DEFAULT"):
            change = ChangeDefault(path, None)
        elif (position := _position(cursor)) is not None:
            change = ChangePosition(path, position)
        elif cursor.at == at:
            cursor.fail_expected(
                "TYPE, COMMENT, FIRST, AFTER, SET NOT NULL, DROP NOT NULL, SET DEFAULT or DROP DEFAULT after the column"
            )
        else:
            return
        yield Alteration(change, start_token)


def _read_rename(cursor: TokenStream) -> Iterator[Alteration]:
    """``RENAME [COLUMN] a TO b``; RENAME TO is the table's, read by the statement."""
    cursor.accept_words("COLUMN")
    _check_is_column(cursor)
    path, start_token = _path(cursor)
    cursor.expect_words("TO")
    yield Alteration(RenameColumn(path, cursor.name_part("the new name of the column")), start_token)


def _read_set(cursor: TokenStream) -> Iterator[Alteration]:
    start_token = cursor.peek()
    for key, value in cursor.options().items():
        change = ChangeTableComment(value) if key == _COMMENT else SetOption(key, value)
        assert start_token is not None
        yield Alteration(change, start_token)


def _read_unset(cursor: TokenStream) -> Iterator[Alteration]:
    cursor.accept_words("IF", "EXISTS")  # a missing option is never an error
    cursor.expect_symbol("(")
    while True:
        token = cursor.peek()
        key = cursor.option_key()
        assert token is not None
        yield Alteration(ChangeTableComment(None) if key == _COMMENT else RemoveOption(key), token)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")", " or ',' after an option")


def _read_constraint(cursor: TokenStream) -> Iterator[Alteration]:
    """``ADD CONSTRAINT name CHECK (condition) [ON VIOLATION FAIL|REJECT|WARN] [NOT VALID]``."""
    start_token = cursor.peek()
    assert start_token is not None
    name = cursor.name_part("the name of the constraint")
    if not cursor.at_words("CHECK"):
        cursor.fail("only CHECK (…) constraints can be added; the primary key is fixed when a table is created")
    yield Alteration(AddConstraint(read_check(cursor, name)), start_token)


def _read_dropped_constraint(cursor: TokenStream) -> Iterator[Alteration]:
    """``DROP CONSTRAINT [IF EXISTS] name``."""
    start_token = cursor.peek()
    if_exists = cursor.accept_words("IF", "EXISTS")
    assert start_token is not None
    yield Alteration(DropConstraint(cursor.name_part("the name of the constraint"), if_exists), start_token)


def _refuse_replace(cursor: TokenStream) -> Iterator[Alteration]:
    cursor.fail("REPLACE COLUMNS would drop all columns; describe the change with ADD, DROP, RENAME and ALTER COLUMN")


_CLAUSES: tuple[tuple[tuple[str, ...], Callable[[TokenStream], Iterator[Alteration]]], ...] = (
    (("ADD", "CONSTRAINT"), _read_constraint), (("DROP", "CONSTRAINT"), _read_dropped_constraint),
    (("ADD",), _read_adds), (("DROP",), _read_drops), (("MODIFY",), _read_modifies),
    (("RENAME",), _read_rename), (("ALTER",), _read_alter), (("CHANGE",), _read_change),
    (("REPLACE", "COLUMNS"), _refuse_replace), (("SET", "TBLPROPERTIES"), _read_set), (("SET",), _read_set),
    (("UNSET", "TBLPROPERTIES"), _read_unset), (("RESET",), _read_unset),
)  # fmt: skip

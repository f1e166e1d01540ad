"""Parser of CREATE TABLE, in Spark's dialect (USING, TBLPROPERTIES) and in Flink's (NOT ENFORCED, WITH)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lakelog.catalog.base import Identifier
from lakelog.io.clock import now_ms
from lakelog.io.names import new_attempt
from lakelog.options.log import WATERMARK_COLUMN, WATERMARK_DELAY
from lakelog.options.lookup import PROCTIME_COLUMNS
from lakelog.paimon.schema.changes import ChangeDefault
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import DataType
from lakelog.sql.ddl.check_clause import at_check, with_check
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.clauses import LOCATION_RULE, SORT_RULE
from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.sql.syntax.type_parser import Dialect, parse_default, parse_type
from lakelog.table.views.rules import check_no_view

# Values of USING (or of Flink's option `connector`) for lakelog's tables.
PROVIDERS = ("lakelog", "arctic", "amoro", "mixed_iceberg", "paimon")
# Clauses of tables that only Spark has (Hive's).
_SPARK_ONLY = ("STORED", "ROW", "CLUSTERED", "SORTED", "SKEWED")
_WHY_NOT = {
    "PERIOD": "PERIOD FOR is not supported in CREATE TABLE; remove it",
    "UNIQUE": "UNIQUE is not supported; lakelog enforces primary keys only",
    "FOREIGN": "FOREIGN KEY is not supported; remove it",
}


@dataclass(frozen=True)
class Column:
    """A column as written in the statement."""

    name: str
    type: DataType
    comment: str | None
    default: str | None = None


@dataclass(frozen=True)
class _Clauses:
    """The clauses read so far: the column list and the clauses after it."""

    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    provider: str = "lakelog"
    proctimes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableDefinition:
    """``[OR REPLACE] TABLE [IF NOT EXISTS] name (column type …, PRIMARY KEY (…)) …``.

    ``or_replace`` is True if the statement replaces an existing table, ``must_exist`` if the table must exist.
    """

    name: Name
    if_not_exists: bool
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    partition_keys: tuple[str, ...]
    comment: str | None
    options: dict[str, str]
    or_replace: bool = False
    must_exist: bool = False

    @classmethod
    def read(cls, cursor: TokenStream) -> TableDefinition | None:
        """Reads CREATE or REPLACE TABLE up to its end, or to the query that fills the table.

        None if USING names a format of Spark's or a clause is Hive's.
        """
        must_exist = cursor.accept_words("REPLACE")
        if not must_exist:
            cursor.expect_words("CREATE")
        modifier = cursor.peek()
        or_replace = must_exist or cursor.accept_words("OR", "REPLACE")
        external = cursor.accept_words("EXTERNAL")
        if not cursor.accept_words("TABLE"):
            return None  # CREATE OR REPLACE VIEW
        start_token = cursor.peek()
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name()
        if _is_spark_table(cursor):
            return None
        if or_replace and if_not_exists:
            cursor.fail("REPLACE and IF NOT EXISTS contradict each other: leave one of them out", start_token)
        if external:
            cursor.fail(
                "EXTERNAL is not supported: a lakelog table is always in its warehouse; leave the word out", modifier
            )
        clauses, dialect = _Clauses(), _dialect(cursor)
        if cursor.at_symbol("("):
            clauses = _read_columns(cursor, clauses, dialect)
        definition = _finish(cursor, name, if_not_exists, _read_clauses(cursor, clauses, dialect))
        return replace(definition, or_replace=or_replace, must_exist=must_exist)

    def schema(self, options: dict[str, str], time_millis: int) -> TableSchema:
        """The schema of the new table. Raises InvalidSchema, UnsupportedFeature."""
        schema = new_schema(
            fields=[(c.name, c.type, c.comment) for c in self.columns],
            primary_keys=list(self.primary_key),
            partition_keys=list(self.partition_keys),
            options=options,
            comment=self.comment,
            time_millis=time_millis,
        )
        for column in self.columns:
            if column.default is not None:
                schema = ChangeDefault((column.name,), column.default).apply(schema, has_snapshots=False)
        return schema

    def create(self, session: SessionContext, identifier: Identifier) -> None:
        """Creates the table under a name. Raises InvalidSchema, InvalidOption, UnsupportedFeature, AlreadyExists."""
        options = session.tables.canonical_options(self.options, "table")
        session.create_table(identifier, self.schema(options, now_ms()), self.if_not_exists)


def _outer_words(cursor: TokenStream) -> list[tuple[str, int]]:
    """The following keywords outside of parentheses, with their distance from the cursor."""
    out, depth, ahead = [], 0, 0
    while (token := cursor.peek(ahead)) is not None:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.kind is Kind.WORD:
            out.append((token.text.upper(), ahead))
        ahead += 1
    return out


def _is_spark_table(cursor: TokenStream) -> bool:
    for word, ahead in _outer_words(cursor):
        if word == "USING":
            provider = cursor.peek(ahead + 1)
            return provider is not None and provider.text.strip("`").lower() not in PROVIDERS
        if word in ("AS", "SELECT"):
            return False
        if word in _SPARK_ONLY:
            return True
    return False


def _dialect(cursor: TokenStream) -> Dialect:
    words = {word for word, _ in _outer_words(cursor)}
    flink = "WITH" in words or any(t.is_word("ENFORCED") for t in cursor.tokens)
    return Dialect.FLINK if flink and not words & {"USING", "TBLPROPERTIES"} else Dialect.SPARK


def _read_columns(cursor: TokenStream, clauses: _Clauses, dialect: Dialect) -> _Clauses:
    cursor.expect_symbol("(")
    while True:
        token = cursor.peek()
        if token is not None and (token.is_symbol(".") or token.is_symbol("…")):
            cursor.fail("'...' is a placeholder from a manual: write the columns, e.g. id int, name string")
        why_not = _why_not(cursor)
        if why_not:
            cursor.fail(why_not)
        if cursor.at_words("PRIMARY", "KEY") or cursor.at_words("CONSTRAINT") or at_check(cursor):
            clauses = _read_constraint(cursor, clauses)
        elif cursor.accept_words("WATERMARK", "FOR"):
            clauses = replace(clauses, options=(*clauses.options, *_read_watermark(cursor)))
        else:
            clauses = _read_column(cursor, clauses, dialect)
        if cursor.accept_symbol(")"):
            return clauses
        cursor.expect_symbol(",", f" or ')' after {_last(clauses)}")


def _last(clauses: _Clauses) -> str:
    return f"column '{clauses.columns[-1].name}'" if clauses.columns else "the primary key"


def _why_not(cursor: TokenStream) -> str | None:
    token, second = cursor.peek(), cursor.peek(1)
    if token is None or second is None or token.kind is not Kind.WORD:
        return None
    follows = {"PERIOD": ("FOR",), "FOREIGN": ("KEY",)}.get(token.text.upper())
    if follows is None:
        return _WHY_NOT.get(token.text.upper()) if second.is_symbol("(") else None
    return _WHY_NOT[token.text.upper()] if second.is_word(*follows) else None


def _read_constraint(cursor: TokenStream, clauses: _Clauses) -> _Clauses:
    """``[CONSTRAINT name] PRIMARY KEY (a, b) [NOT ENFORCED]`` or ``[CONSTRAINT name] CHECK (condition) …``."""
    start_token, name = cursor.peek(), ""
    if cursor.accept_words("CONSTRAINT"):
        name = cursor.name_part("the name of the constraint")
        why_not = _why_not(cursor)
        if why_not:
            cursor.fail(why_not)
    if at_check(cursor):
        return replace(clauses, options=with_check(cursor, clauses.options, name))
    cursor.expect_words("PRIMARY", "KEY")
    key = cursor.names_in_parentheses("a column of the primary key")
    _skip_enforced(cursor)
    return _with_key(cursor, clauses, key, start_token)


def _skip_enforced(cursor: TokenStream) -> None:
    # lakelog always enforces the key, so the words have no effect.
    if not cursor.accept_words("NOT", "ENFORCED"):
        cursor.accept_words("ENFORCED")
    cursor.accept_words("RELY")


def _with_key(cursor: TokenStream, clauses: _Clauses, key: tuple[str, ...], start_token: Token | None) -> _Clauses:
    if clauses.primary_key is not None:
        cursor.fail("the table has a primary key already; name all its columns in one primary key (a, b)", start_token)
    return replace(clauses, primary_key=key)


def _read_column(cursor: TokenStream, clauses: _Clauses, dialect: Dialect) -> _Clauses:
    start_token = cursor.peek()
    name = cursor.name_part("a column name")
    if _accept_proctime(cursor):
        return replace(clauses, proctimes=(*clauses.proctimes, name))
    if cursor.at_words("AS"):
        cursor.fail(f"column '{name}' is computed, which is not supported; compute it in the query or in a view")
    kind = parse_type(cursor, dialect)
    comment: str | None = None
    default: str | None = None
    while True:
        if cursor.accept_words("NOT", "NULL"):
            kind = kind.with_nullable(False)
        elif cursor.accept_words("COMMENT"):
            comment = cursor.text_literal(f"the comment of column '{name}'")
        elif cursor.accept_words("PRIMARY", "KEY"):
            _skip_enforced(cursor)
            clauses = _with_key(cursor, clauses, (name,), start_token)
        elif cursor.accept_words("DEFAULT"):
            default = parse_default(cursor)
        elif at_check(cursor):
            clauses = replace(clauses, options=with_check(cursor, clauses.options, column=name))
        elif cursor.at_words("METADATA") or cursor.at_words("GENERATED"):
            word = cursor.take()
            cursor.fail(f"{word.text.upper()} on column '{name}' is not supported; remove it", word)
        else:
            break
    return replace(clauses, columns=(*clauses.columns, Column(name, kind, comment, default)))


def _accept_proctime(cursor: TokenStream) -> bool:
    """Moves over Flink's ``AS PROCTIME()``: the time of reading, which is no value of the row."""
    start_token = cursor.at
    if cursor.accept_words("AS", "PROCTIME") and cursor.accept_symbol("(") and cursor.accept_symbol(")"):
        return True
    cursor.at = start_token
    return False


def _read_watermark(cursor: TokenStream) -> list[tuple[str, str]]:
    """Flink's ``WATERMARK FOR column AS column [- INTERVAL '5' SECOND]`` as options of the table."""
    column = cursor.name_part("the column of the event time")
    cursor.expect_words("AS")
    start_token = cursor.peek()
    if cursor.name_part("the same column") != column:
        cursor.fail(
            f"a watermark is the newest '{column}', less an interval: write AS {column} - INTERVAL …", start_token
        )
    options = [(WATERMARK_COLUMN.key, column)]
    if cursor.accept_symbol("-"):
        cursor.expect_words("INTERVAL")
        number = cursor.text_literal("an interval such as '5' SECOND")
        options.append((WATERMARK_DELAY.key, f"{number} {cursor.name_part('a unit such as SECOND').lower()}"))
    return options


def _read_clauses(cursor: TokenStream, clauses: _Clauses, dialect: Dialect) -> _Clauses:
    """Reads the clauses after the columns, of both dialects, in any order."""
    while cursor.peek() is not None:
        if cursor.accept_words("USING"):
            clauses = replace(clauses, provider=cursor.name_part("the format, such as lakelog").lower())
        elif cursor.at_words("PRIMARY", "KEY"):
            clauses = _read_constraint(cursor, clauses)
        elif cursor.accept_words("PARTITIONED", "BY"):
            clauses = _read_partition_keys(cursor, clauses, dialect)
        elif cursor.accept_words("COMMENT"):
            clauses = replace(clauses, comment=cursor.text_literal("the comment of the table"))
        elif cursor.at_words("TBLPROPERTIES") or cursor.at_words("OPTIONS") or cursor.at_words("WITH"):
            clauses = _read_options(cursor, clauses)
        elif cursor.at_words("LOCATION"):
            cursor.fail(f"LOCATION is not supported: {LOCATION_RULE}")
        elif cursor.at_words("CLUSTER", "BY"):
            cursor.fail(f"CLUSTER BY is not supported: {SORT_RULE}")
        elif cursor.at_words("SHALLOW") or cursor.at_words("DEEP"):
            cursor.fail(
                "CLONE is not supported: CREATE TABLE … AS SELECT copies a table, CALL sys.create_branch shares its "
                "files"
            )
        elif cursor.at_words("AS") or cursor.at_words("SELECT"):
            break
        else:
            cursor.fail_expected("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES, WITH or the end of the statement")
    return clauses


def _read_options(cursor: TokenStream, clauses: _Clauses) -> _Clauses:
    clause = cursor.take()
    options = cursor.options()
    for key in options:
        if key in dict(clauses.options):
            cursor.fail(f"option '{key}' is given twice", clause)
    return replace(clauses, options=(*clauses.options, *options.items()))


def _read_partition_keys(cursor: TokenStream, clauses: _Clauses, dialect: Dialect) -> _Clauses:
    """``(a, b)``, or in Hive and Spark ``(a date, b int)``, which appends the columns after the others."""
    cursor.expect_symbol("(")
    keys: list[str] = []
    while True:
        start_token = cursor.peek()
        keys.append(cursor.name_part("a partition column"))
        if cursor.at_symbol("("):
            cursor.fail(
                f"a partition is the value of a column: '{keys[-1]}(…)' is not supported; "
                "add a column that holds this value and partition by it",
                start_token,
            )
        if not (cursor.at_symbol(",") or cursor.at_symbol(")")):
            kind = parse_type(cursor, dialect)
            comment = cursor.text_literal("a comment") if cursor.accept_words("COMMENT") else None
            if any(column.name.lower() == keys[-1].lower() for column in clauses.columns):
                cursor.fail(f"column '{keys[-1]}' is already in the column list: write only its name here", start_token)
            clauses = replace(clauses, columns=(*clauses.columns, Column(keys[-1], kind, comment)))
        if cursor.accept_symbol(")"):
            return replace(clauses, partition_keys=tuple(keys))
        cursor.expect_symbol(",")


def _finish(cursor: TokenStream, name: Name, if_not_exists: bool, clauses: _Clauses) -> TableDefinition:
    """Converts options of other engines (connector, primary-key, partition) to clauses."""
    options = dict(clauses.options)
    if twice := sorted(set(clauses.proctimes) & {column.name for column in clauses.columns}):
        cursor.fail(f"column '{twice[0]}' is defined twice: a column AS PROCTIME() is no column of the rows")
    if clauses.proctimes:
        options[PROCTIME_COLUMNS.key] = ",".join(clauses.proctimes)
    connector = options.pop("connector", clauses.provider)
    if connector.lower() not in PROVIDERS:
        cursor.fail(
            f"'connector' = '{connector}' is not a lakelog table; leave the option out for a lakelog table, "
            "or read the other system with Spark into a temporary view",
            cursor.tokens[0],
        )
    written = {
        "primary-key": clauses.primary_key or (),
        "partition": clauses.partition_keys,
    }
    for key, columns in written.items():
        if key in options:
            listed = tuple(part.strip() for part in options.pop(key).split(",") if part.strip())
            if columns and columns != listed:
                cursor.fail(f"option '{key}' = '{','.join(listed)}' contradicts the columns in the statement")
            written[key] = listed
    return TableDefinition(
        name=name,
        if_not_exists=if_not_exists,
        columns=clauses.columns,
        primary_key=written["primary-key"],
        partition_keys=written["partition"],
        comment=clauses.comment,
        options=options,
    )


@contextmanager
def new_table_name(session: SessionContext, table: TableDefinition) -> Iterator[Identifier]:
    """The name under which to create a table: its own, or that of ``replaced_table``.

    Raises NotFound for REPLACE TABLE of a missing table, InvalidRequest for a materialized view.
    """
    identifier = session.resolve(table.name)
    if not table.or_replace or not session.exists(identifier):
        if table.must_exist:
            raise session.no_table(table.name)
        yield identifier
        return
    check_no_view(session.tables.load_schema(identifier), str(identifier))
    with replaced_table(session, identifier) as fresh:
        yield fresh


@contextmanager
def replaced_table(session: SessionContext, identifier: Identifier) -> Iterator[Identifier]:
    """The name under which to create what replaces a table; at the end of the block it gets the name of that table.

    If the block fails, the old table stays unchanged. Otherwise it is dropped, as by DROP TABLE, once the new one has
    its name. Between the two renames the name does not exist. Raises UnsupportedFeature if the storage cannot rename.
    """
    attempt = new_attempt()
    fresh = replace(identifier, table=f"{identifier.table}__new_{attempt}")
    old = replace(identifier, table=f"{identifier.table}__old_{attempt}")
    yield fresh
    try:
        session.tables.rename_table(identifier, old)
    except BaseException:
        session.tables.drop_table(fresh, if_exists=True, purge=True)
        raise
    try:
        session.tables.rename_table(fresh, identifier)
    except BaseException:
        session.tables.rename_table(old, identifier)
        session.tables.drop_table(fresh, if_exists=True, purge=True)
        raise
    session.tables.drop_table(old, if_exists=True, purge=False)

"""SQL type text ⇄ the types of the format, in the spellings of Spark SQL and of Flink SQL.

The one difference in meaning is a bare ``timestamp``: an instant in Spark (TIMESTAMP_LTZ of the format),
a wall-clock time in Flink (TIMESTAMP). ``timestamp_ltz`` and ``timestamp_ntz`` mean the same in both.
"""

from __future__ import annotations

import enum

from lakelog.errors import InternalError
from lakelog.paimon.types.types import (
    BYTES,
    MAX_LENGTH,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from lakelog.sql.syntax.lexer import Kind, quoted_name, quoted_text, string_value, tokenize
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream


class Dialect(enum.Enum):
    """The system whose spelling a statement uses."""

    SPARK = "spark"
    FLINK = "flink"


_PLAIN = {
    "BOOLEAN": "BOOLEAN", "BOOL": "BOOLEAN",
    "TINYINT": "TINYINT", "BYTE": "TINYINT", "SMALLINT": "SMALLINT", "SHORT": "SMALLINT",
    "INT": "INT", "INTEGER": "INT", "BIGINT": "BIGINT", "LONG": "BIGINT",
    "FLOAT": "FLOAT", "REAL": "FLOAT", "DOUBLE": "DOUBLE", "DATE": "DATE", "VARIANT": "VARIANT", "BLOB": "BLOB",
}  # fmt: skip
_TEXTS = {"VARCHAR": "VARCHAR", "CHAR": "CHAR", "CHARACTER": "CHAR", "VARBINARY": "VARBINARY"}
_WHAT_WORKS = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, varchar(n), char(n), bytes, "
    "binary, varbinary(n), date, time, timestamp, timestamp_ltz, timestamp_ntz, array<…>, map<…, …>, struct<…>, "
    "row<…>, multiset<…>, variant"
)


def parse_type(cursor: TokenStream, dialect: Dialect) -> DataType:
    """Reads a type and any ``NOT NULL`` after it. Raises UnsupportedStatement for an unknown type."""
    start_token = cursor.peek()
    word = cursor.name_part("a type").upper()
    kind: DataType | None
    if word in _PLAIN:
        if word == "DOUBLE":
            cursor.accept_words("PRECISION")
        kind = AtomicType(_PLAIN[word])
    elif word in ("STRING", "BYTES"):
        kind = STRING if word == "STRING" else BYTES
    else:
        kind = _sized_type(cursor, word, dialect) or _time_type(cursor, word, dialect)
        kind = kind or _nested_type(cursor, word, dialect)
    if kind is None:
        cursor.fail(f"unsupported type '{word.lower()}'; these work: {_WHAT_WORKS}", start_token)
    if cursor.accept_words("NOT", "NULL"):
        return kind.with_nullable(False)
    cursor.accept_words("NULL")
    return kind


def _argument(cursor: TokenStream, what: str, low: int, high: int) -> int | None:
    """The number in ``(n)``, None if there is no parenthesis."""
    if not cursor.accept_symbol("("):
        return None
    start_token = cursor.peek()
    number = cursor.integer(what)
    if not low <= number <= high:
        cursor.fail(f"{what} must be between {low} and {high}, not {number}", start_token)
    cursor.expect_symbol(")", f" after {what}")
    return number


def _sized_type(cursor: TokenStream, word: str, dialect: Dialect) -> DataType | None:
    if word in _TEXTS:
        length = _argument(cursor, f"the length of {word.lower()}", 1, MAX_LENGTH)
        if length is None:
            instead = "bytes" if word == "VARBINARY" else "string"
            cursor.fail(f"{word.lower()} needs a length such as {word.lower()}(20); without a limit write {instead}")
        return AtomicType(_TEXTS[word], length=length)
    if word == "BINARY":
        length = _argument(cursor, "the length of binary", 1, MAX_LENGTH)
        if length is not None:
            return AtomicType("BINARY", length=length)
        # A bare `binary` has no limit in Spark and is one byte in Flink.
        return BYTES if dialect is Dialect.SPARK else AtomicType("BINARY", length=1)
    if word in ("DECIMAL", "DEC", "NUMERIC"):
        return _decimal(cursor)
    return None


def _decimal(cursor: TokenStream) -> DataType:
    if not cursor.accept_symbol("("):
        return AtomicType("DECIMAL", precision=10, scale=0)
    start_token = cursor.peek()
    precision = cursor.integer("the precision of decimal")
    scale = cursor.integer("the scale of decimal") if cursor.accept_symbol(",") else 0
    if not (1 <= precision <= 38 and scale <= precision):
        cursor.fail(
            f"decimal({precision}, {scale}): the precision must be 1 to 38, and the scale no larger than the precision",
            start_token,
        )
    cursor.expect_symbol(")", " after the scale of decimal")
    return AtomicType("DECIMAL", precision=precision, scale=scale)


def _time_type(cursor: TokenStream, word: str, dialect: Dialect) -> DataType | None:
    if word == "TIME":
        precision = _argument(cursor, "the precision of time", 0, 9)
        default = 0 if dialect is Dialect.FLINK else 3
        cursor.accept_words("WITHOUT", "TIME", "ZONE")
        return AtomicType("TIME", precision=default if precision is None else precision)
    if word not in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        return None
    precision = _argument(cursor, f"the precision of {word.lower()}", 0, 9)
    instant = word == "TIMESTAMP_LTZ" or (word == "TIMESTAMP" and dialect is Dialect.SPARK)
    if word == "TIMESTAMP":
        if cursor.accept_words("WITH", "LOCAL", "TIME", "ZONE"):
            instant = True
        elif cursor.accept_words("WITHOUT", "TIME", "ZONE"):
            instant = False
        elif cursor.at_words("WITH", "TIME", "ZONE"):
            cursor.fail("a timestamp with its own time zone is not supported; write timestamp with local time zone")
    return AtomicType("TIMESTAMP_LTZ" if instant else "TIMESTAMP", precision=6 if precision is None else precision)


def _nested_type(cursor: TokenStream, word: str, dialect: Dialect) -> DataType | None:
    if word in ("ARRAY", "MULTISET"):
        cursor.expect_symbol("<", f" after {word.lower()}")
        element = parse_type(cursor, dialect)
        cursor.expect_symbol(">", f" after the element of {word.lower()}")
        return ArrayType(element) if word == "ARRAY" else MultisetType(element)
    if word == "MAP":
        cursor.expect_symbol("<", " after map")
        key = parse_type(cursor, dialect)
        cursor.expect_symbol(",", " after the key of map")
        value = parse_type(cursor, dialect)
        cursor.expect_symbol(">", " after the value of map")
        return MapType(key, value)
    if word in ("STRUCT", "ROW"):
        return RowType(_row_fields(cursor, word.lower(), dialect))
    if word == "VECTOR":
        cursor.expect_symbol("<", " after vector")
        element = parse_type(cursor, dialect)
        cursor.expect_symbol(",", " after the element of vector")
        length = cursor.integer("the length of vector")
        cursor.expect_symbol(">", " after the length of vector")
        return VectorType(element, length)
    return None


def _row_fields(cursor: TokenStream, word: str, dialect: Dialect) -> tuple[DataField, ...]:
    """The fields of ``struct<a: int, b string comment '…'>``, ``row<a int>`` or ``row(a int)``; ids count from 0."""
    close = ")" if cursor.accept_symbol("(") else ">"
    if close == ">":
        cursor.expect_symbol("<", f" after {word}")
    fields: list[DataField] = []
    while True:
        name = cursor.name_part(f"a field name of {word}")
        cursor.accept_symbol(":")
        kind = parse_type(cursor, dialect)
        text = None
        if cursor.accept_words("COMMENT") or cursor.at_text():
            text = cursor.text_literal("the comment of the field")
        fields.append(DataField(len(fields), name, kind, text))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(close, f" after the fields of {word}")
    return tuple(fields)


def parse_default(cursor: TokenStream) -> str:
    """Reads a literal after DEFAULT; the schema stores its text. Raises UnsupportedStatement."""
    for word in ("CURRENT_TIMESTAMP", "CURRENT_DATE", "NOW"):
        if cursor.at_words(word):
            cursor.fail("a default is one value for all rows; write a literal such as 0, 'none' or date'2024-01-31'")
    if (
        cursor.at_words("ARRAY")
        or cursor.at_words("MAP")
        or cursor.at_words("NAMED_STRUCT")
        or cursor.at_words("STRUCT")
    ):
        return _nested_default(cursor)
    for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        cursor.accept_words(word)
    if cursor.at_text():
        return cursor.text_literal("the default")
    sign = "-" if cursor.accept_symbol("-") else ""
    return sign + cursor.take().text


def _nested_default(cursor: TokenStream) -> str:
    """An expression of literals, with texts that have no other escapes than those of quotes and backslashes."""
    parts, depth = [cursor.take().text.lower()], 0
    while True:
        token = cursor.take()
        depth += token.is_symbol("(") - token.is_symbol(")")
        parts.append(quoted_text(string_value(token)) if token.kind is Kind.STRING else token.text)
        if token.is_symbol(","):
            parts.append(" ")
        if depth < 1:
            return "".join(parts)


def parse_type_text(text: str, dialect: Dialect = Dialect.SPARK) -> DataType:
    """Reads a whole text as one type, e.g. ``decimal(10, 2) not null``."""
    cursor = TokenStream(SourceText(text, 0, len(text)), tuple(tokenize(text)))
    kind = parse_type(cursor, dialect)
    cursor.expect_end()
    return kind


def _timestamp_text(kind: AtomicType) -> str:
    instant, precision = kind.root == "TIMESTAMP_LTZ", 6 if kind.precision is None else kind.precision
    if precision == 6:
        return "timestamp" if instant else "timestamp_ntz"
    return f"timestamp_ltz({precision})" if instant else f"timestamp_ntz({precision})"


def _atomic_text(kind: AtomicType) -> str:
    root = kind.root
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _timestamp_text(kind)
    if root == "VARCHAR" and kind.length == MAX_LENGTH:
        return "string"
    if root == "VARBINARY" and kind.length == MAX_LENGTH:
        return "binary"
    if root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return f"{root.lower()}({kind.length})"
    if root == "DECIMAL":
        return f"decimal({kind.precision},{kind.scale})"
    if root == "TIME":
        return f"time({kind.precision or 0})"
    return root.lower()


def type_text(kind: DataType) -> str:
    """The type in Spark's spelling, as DESCRIBE and SHOW CREATE TABLE print it.

    NOT NULL of the type itself is left to the column; inside nested types it is printed. The text reads
    back (Dialect.SPARK) as the same type.
    """
    if isinstance(kind, AtomicType):
        return _atomic_text(kind)
    if isinstance(kind, ArrayType):
        return f"array<{_inner_text(kind.element)}>"
    if isinstance(kind, MultisetType):
        return f"multiset<{_inner_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{_inner_text(kind.key)},{_inner_text(kind.value)}>"
    if isinstance(kind, VectorType):
        return f"vector<{_inner_text(kind.element)},{kind.length}>"
    if isinstance(kind, RowType):
        return f"struct<{','.join(_field_text(f) for f in kind.fields)}>"
    raise InternalError(f"a type without SQL text: {kind!r}")


def _inner_text(kind: DataType) -> str:
    return type_text(kind) + ("" if kind.nullable else " not null")


def _field_text(field: DataField) -> str:
    comment = f" comment {quoted_text(field.description)}" if field.description else ""
    return f"{quoted_name(field.name)}:{_inner_text(field.type)}{comment}"

"""SHOW CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.options.log import shown_value
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.lexer import quoted_name, quoted_text
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.sql.syntax.type_parser import type_text


def create_table_text(identifier: Identifier, schema: TableSchema) -> str:
    """The statement, in Spark's dialect, that creates a table with exactly this schema."""
    lines = [f"  {line}" for line in _column_lines(schema)]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quoted_name, schema.primary_keys))})")
    text = f"CREATE TABLE {'.'.join(map(quoted_name, identifier.parts))} (\n" + ",\n".join(lines) + ")"
    text += "\nUSING lakelog"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(quoted_name, schema.partition_keys))})"
    if schema.comment:
        text += f"\nCOMMENT {quoted_text(schema.comment)}"
    if schema.options:
        shown = {k: shown_value(k, v) for k, v in sorted(schema.options.items()) if not k.startswith("lakelog.")}
        pairs = (f"  {quoted_text(key)} = {quoted_text(value)}" for key, value in shown.items())
        text += "\nTBLPROPERTIES (\n" + ",\n".join(pairs) + ")"
    return text + "\n"


def _column_lines(schema: TableSchema) -> Iterator[str]:
    for field in schema.fields:
        line = f"{quoted_name(field.name)} {type_text(field.type)}"
        if not field.type.nullable and field.name not in schema.primary_keys:
            line += " NOT NULL"
        if field.default_value is not None:
            line += f" DEFAULT {quoted_text(field.default_value)}"
        if field.description:
            line += f" COMMENT {quoted_text(field.description)}"
        yield line


@dataclass(frozen=True)
class ShowCreateTable(TableStatement):
    """``SHOW CREATE TABLE name``."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowCreateTable:
        """Reads the statement; AS SERDE (Hive's form) is not supported."""
        cursor.expect_words("SHOW", "CREATE", "TABLE")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row: createtab_stmt."""
        return text_rows(("createtab_stmt",), [(create_table_text(identifier, schema),)])

"""CREATE TABLE … LIKE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.io.clock import now_ms
from lakelog.options.log import DATA_FORMAT, LOG_ENABLED, LOG_TOPIC, LOG_TYPE
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.paimon.schema.schema import TableSchema, check_schema, new_schema
from lakelog.sql.ddl.table_definition import PROVIDERS
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class CreateTableLike(ParsedStatement):
    """``CREATE TABLE [IF NOT EXISTS] name LIKE other [USING lakelog] [TBLPROPERTIES (…)]``.

    From a lakelog table it copies columns, keys, partitions and options, but not the topic of the log. From another
    relation, with USING lakelog, it copies the columns.
    """

    needs: ClassVar[Privilege] = Privilege.WRITE

    name: Name
    if_not_exists: bool
    other: Name
    is_ours: bool
    options: dict[str, str]

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTableLike | None:
        """Reads the statement; None if a clause is Spark's alone."""
        cursor.expect_words("CREATE", "TABLE")
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name()
        cursor.expect_words("LIKE")
        other = cursor.name()
        is_ours = False
        options: dict[str, str] = {}
        while cursor.peek() is not None:
            if cursor.accept_words("USING"):
                if cursor.name_part("a format").lower() not in PROVIDERS:
                    return None
                is_ours = True
            elif cursor.accept_words("TBLPROPERTIES") or cursor.accept_words("OPTIONS") or cursor.accept_words("WITH"):
                options |= cursor.options()
            else:
                return None
        return cls(cursor.source, name, if_not_exists, other, is_ours, options)

    def run(self, session: SessionContext) -> object:
        """Creates the table. Raises NotFound, AlreadyExists."""
        found = session.own_table(self.other)
        if found is None and not self.is_ours:
            return session.engine.pass_through(self.source.text)
        options = session.tables.canonical_options(self.options, "table")
        schema = self._of_spark(session) if found is None else _as_new(found[1], options)
        made = replace(schema, options={**schema.options, **options}, time_millis=now_ms())
        check_schema(made)
        session.create_table(session.resolve(self.name), made, self.if_not_exists)
        return empty_result()

    def _of_spark(self, session: SessionContext) -> TableSchema:
        query = f"SELECT * FROM {self.other.sql}"
        columns = session.engine.columns_of(plan_query(session, SourceText(query, 0, len(query))))
        return new_schema([(name, kind, None) for name, kind in columns])


def _as_new(schema: TableSchema, given: Mapping[str, str]) -> TableSchema:
    """The schema of a new table like this one: with new field ids, without the options of the old table only.

    If the ``given`` options name another log system, the format of the old log is one of them: CREATE TABLE may have
    chosen it for the old system. Without a log, it has no log system and no log partitions, which lakelog may have set.
    """
    own = {LOG_TOPIC.key}
    if given.get(LOG_TYPE.key, schema.options.get(LOG_TYPE.key)) != schema.options.get(LOG_TYPE.key):
        own.add(DATA_FORMAT.key)
    if not Options({**schema.options, **given}).need(LOG_ENABLED):
        own |= {LOG_PARTITIONS.key, LOG_TYPE.key}
    options = {k: v for k, v in schema.options.items() if k not in own and not k.startswith("lakelog.")}
    fields = [(f.name, f.type, f.description) for f in schema.fields]
    made = new_schema(fields, schema.primary_keys, schema.partition_keys, options, schema.comment)
    defaults = [
        replace(new, default_value=old.default_value) for new, old in zip(made.fields, schema.fields, strict=True)
    ]
    return replace(made, fields=tuple(defaults))

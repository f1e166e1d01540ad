"""Tools for an assistant by the Model Context Protocol: what is there, how it is, rows, and changes. None writes.

The tools run with the role READ over the services of ``lakelog serve``, so its rules for statements hold. An answer is
bounded by a number of rows and by bytes, and says if there is more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final, ParamSpec

import orjson
import pyarrow as pa
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.logstore.encoding.json_rows import to_json_texts
from lakelog.service.access.gate import LOCAL
from lakelog.service.access.identity import Identity
from lakelog.service.serve.changes import change_stream
from lakelog.service.serve.settings import ServeSettings
from lakelog.service.serve.statements import Statements
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.table.health.health import table_health

MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 256 << 10
"""Bytes of an answer: a larger one leaves an assistant no room for anything else."""
_INSTRUCTIONS: Final = (
    "Tables of a lakelog warehouse: one logical table in files and in a log of changes. Names are database.table. "
    "query runs one statement of Spark's SQL that reads. Nothing here changes a table."
)
_READER: Final = Identity(LOCAL, Privilege.READ, None)

Answer = dict[str, Any]
P = ParamSpec("P")


def assistant_server(settings: ServeSettings) -> MCPServer:
    """The server of the tools; its ``run`` speaks over standard input and output until the client closes them."""
    tools = Tools(Statements(settings))
    server: MCPServer = MCPServer("lakelog", instructions=_INSTRUCTIONS)
    for tool in (tools.list_tables, tools.describe_table, tools.table_health, tools.query, tools.changes_since):
        server.add_tool(_with_plain_errors(tool))
    return server


def _with_plain_errors(tool: Callable[P, Answer]) -> Callable[P, Answer]:
    @wraps(tool)
    def call(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return tool(*args, **kwargs)
        except LakelogError as why:  # its text says what to do; a traceback would say where this server lives
            raise ToolError(f"{type(why).__name__}: {why}") from None

    return call


class Tools:
    """The tools, whose names, arguments and docstrings are what an assistant sees."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def list_tables(self, database: str = "") -> Answer:
        """Lists the databases and tables of the warehouse, or the tables of one database."""
        session = self._statements.session(Privilege.READ)
        tables, catalog = session.tables, session.current_catalog
        databases = [database] if database else tables.list_databases(catalog)
        return {"databases": {name: list(tables.list_tables(name, catalog)) for name in databases}}

    def describe_table(self, table: str) -> Answer:
        """Describes a table: its columns with types, primary key, partitions, and options."""
        return self.query(f"DESCRIBE EXTENDED {self._quoted(table)}", MOST_ROWS)

    def table_health(self, table: str) -> Answer:
        """The health of a table: a score of 100, problems that were found, needed maintenance, and the lag of files."""
        session = self._statements.session(Privilege.READ)
        health = table_health(session.tables.open(session.identifier(table)))
        facts = health.to_json()
        answer = {name: facts[name] for name in ("table", "score", "findings", "needs", "waits")}
        return {**answer, "rows_waiting_for_files": health.lag}

    def query(self, sql: str, limit: int = 100) -> Answer:
        """Runs one statement that reads: SELECT, SHOW, DESCRIBE or EXPLAIN, in Spark's SQL.

        Returns columns and at most ``limit`` rows (1 to 1,000), and has_more.
        """
        most = _checked(limit)
        with self._statements.run(Privilege.READ, sql) as rows:
            return {"columns": _columns(rows.schema), **_bounded(rows.batches(), most)}

    def changes_since(self, table: str, position: str = "latest-full", limit: int = 100) -> Answer:
        """The changes of a table's log after a position, up to now, each with its kind: +I, -U, +U or -D.

        ``position`` is that of the answer before, earliest, latest, or latest-full (the newest rows, then their
        changes). The answer has the position from which the next call goes on. Whole batches are returned, so there
        may be more than ``limit`` rows.
        """
        most = _checked(limit)
        stream = change_stream(self._statements, _READER, {"table": table, "position": position}, "latest")
        rows: list[Any] = []
        try:
            for batch, reached in stream.batches(lambda: False):
                rows += map(orjson.loads, to_json_texts(batch))
                position = reached.decode()
                if len(rows) >= most:
                    break
        finally:
            stream.close()
        return {"columns": _columns(stream.schema), "rows": rows, "position": position, "has_more": len(rows) >= most}

    def _quoted(self, table: str) -> str:
        session = self._statements.session(Privilege.READ)
        return ".".join(map(quoted_name, session.parts_of(session.identifier(table))))


def _checked(limit: int) -> int:
    if not 1 <= limit <= MOST_ROWS:
        raise InvalidRequest(f"limit = {limit}: give 1 to {MOST_ROWS:,}, and ask for the rest with another condition")
    return limit


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _bounded(batches: Iterable[pa.RecordBatch], most: int) -> Answer:
    """The first rows of a result, as long as they fit an answer."""
    rows: list[Any] = []
    size = 0
    for batch in batches:
        for text in to_json_texts(batch.slice(0, most - len(rows) + 1)):
            size += len(text)
            if len(rows) == most or size > _MOST_BYTES:
                return {"rows": rows, "has_more": True}
            rows.append(orjson.loads(text))
    return {"rows": rows, "has_more": False}

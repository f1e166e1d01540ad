"""A SQL session: runs scripts on the tables and the engine that it was given."""

from __future__ import annotations

from lakelog.sql.parse import parse_script
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.ports import Engine, Tables
from lakelog.sql.runtime.query_plan import QueryPlan, Source

__all__ = ["Engine", "QueryPlan", "Session", "Source", "Tables"]


class Session(SessionContext):
    """The current catalog and database, and the way to run statements there."""

    def run(self, text: str) -> list[object]:
        """Runs the statements of a script in order; one result per statement.

        A result is a pyarrow Table for DDL, SHOW and DESCRIBE, and what the engine returned otherwise. The whole
        script is parsed first: when one statement is malformed, none has run. Raises what the statements raise.
        """
        return [statement.run(self) for statement in parse_script(text)]

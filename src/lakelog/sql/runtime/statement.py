"""Base of all statements: parsed form, required privilege, and result tables."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.ports import RunningStream
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.model.row_counts import RowCounts


@dataclass(frozen=True)
class ParsedStatement(ABC):
    """A parsed statement. Names are resolved when it runs, so that an earlier USE applies."""

    needs: ClassVar[Privilege]
    """The required privilege; the part that Spark executes may need more (``spark/guard/plan_guard.py``)."""
    is_explained: ClassVar[bool] = False
    """Whether EXPLAIN runs it in an ``ExplainingSession`` (``sql/dml/explained.py``), which notes what it writes."""
    explain_fault: ClassVar[str] = ""
    """Why EXPLAIN of it is refused, and what to write instead; "" leaves a statement that is not explained to Spark."""

    source: SourceText

    def __init_subclass__(cls, needs: Privilege | None = None) -> None:
        super().__init_subclass__()
        if needs is not None:
            cls.needs = needs

    @classmethod
    @abstractmethod
    def parse(cls, cursor: TokenStream) -> ParsedStatement | None:
        """Parses the statement from its first token on; returns None for a statement of Spark.

        Raises UnsupportedStatement with line and column.
        """

    @abstractmethod
    def run(self, session: SessionContext) -> object:
        """Runs the statement. DDL, SHOW and DESCRIBE return a pyarrow Table, queries the engine's result."""


@dataclass(frozen=True)
class TableStatement(ParsedStatement):
    """A statement about one table; Spark runs it on a relation that only Spark has."""

    name: Name

    def run(self, session: SessionContext) -> object:
        """Runs the statement. Raises NotFound for a name that neither lakelog nor Spark knows."""
        table = session.own_table(self.name)
        return session.engine.pass_through(self.source.text) if table is None else self.run_on(session, *table)

    @abstractmethod
    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Runs the statement on a lakelog table."""


class Privilege(enum.IntEnum):
    """Privileges; each one includes the lower ones."""

    READ = 1
    """Reads tables; changes only the session."""
    WRITE = 2
    """Changes tables and their rows."""
    ADMIN = 3
    """Changes what tables live in, or takes away what others may still read."""

    @property
    def word(self) -> str:
        """The name of the role with this privilege."""
        return self.name.lower()

    @staticmethod
    def of(word: str) -> Privilege:
        """The privilege of a role. Raises InvalidRequest."""
        for right in Privilege:
            if right.word == word.strip().lower():
                return right
        raise InvalidRequest(f"unknown role '{word}'; known: {', '.join(right.word for right in Privilege)}")


def empty_result() -> pa.Table:
    """The result of a statement without output: no columns, no rows."""
    return pa.table({})


def done_result() -> pa.Table:
    """The result of a procedure without other output, as Apache Paimon's have it."""
    return pa.table({"result": [True]})


def text_rows(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> pa.Table:
    """A table of text columns."""
    listed = [tuple(row) for row in rows]
    arrays = [pa.array([row[i] for row in listed], pa.string()) for i in range(len(columns))]
    return pa.Table.from_arrays(arrays, names=list(columns))


def counts_row(counts: Mapping[str, object]) -> pa.Table:
    """One row of integers, NULL for those that are not known."""
    return pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})


def insert_result(done: RunningStream | RowCounts) -> object:
    """The result of an INSERT: its counts as one row, or the write of a stream."""
    return counts_row(done) if isinstance(done, dict) else done


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The sorted names that match a pattern of SHOW … LIKE: ``*`` is any text, ``|`` is or, case-insensitive."""
    if pattern is None:
        return sorted(names)
    choices = [p.strip().lower().replace("[", "[[]").replace("%", "*") for p in pattern.split("|")]
    return sorted(n for n in names if any(fnmatchcase(n.lower(), c) for c in choices))

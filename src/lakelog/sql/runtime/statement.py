"""The base of all statements: what the parser makes and a session runs, the right that it needs, and its answer."""

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
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class ParsedStatement(ABC):
    """One statement, understood but not run. Names are resolved when it runs, so that USE before it counts."""

    needs: ClassVar[Privilege]
    """The right to run it; what a query hands to Spark may need more (``spark/guard/plan_guard.py``)."""

    source: SourceText

    @classmethod
    @abstractmethod
    def parse(cls, cursor: TokenStream) -> ParsedStatement | None:
        """Reads the statement from its first token on; None means that the statement is Spark's, not lakelog's.

        Raises UnsupportedStatement with line and column.
        """

    @abstractmethod
    def run(self, session: SessionContext) -> object:
        """Does it. DDL, SHOW and DESCRIBE return a pyarrow Table, queries what the engine returns."""


@dataclass(frozen=True)
class TableStatement(ParsedStatement):
    """A statement about one table; on a relation that only Spark has it is Spark's."""

    name: Name

    def run(self, session: SessionContext) -> object:
        """Does it. Raises NotFound for a name that neither lakelog nor Spark knows."""
        found = session.own_table(self.name)
        return session.engine.pass_through(self.source.text) if found is None else self.run_on(session, *found)

    @abstractmethod
    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Does it to a lakelog table."""


class Privilege(enum.IntEnum):
    """Each right has those below it."""

    READ = 1
    """Looks at tables; changes nothing but the session."""
    WRITE = 2
    """Changes tables and their rows."""
    ADMIN = 3
    """Changes what tables live in, or takes away what others may still read."""

    @property
    def word(self) -> str:
        """The name of the role that has it."""
        return self.name.lower()

    @staticmethod
    def of(word: str) -> Privilege:
        """The right that a role has. Raises InvalidRequest."""
        for right in Privilege:
            if right.word == word.strip().lower():
                return right
        raise InvalidRequest(f"unknown role '{word}'; known: {', '.join(right.word for right in Privilege)}")


def empty_result() -> pa.Table:
    """The answer of a statement that has nothing to say: no columns, no rows."""
    return pa.table({})


def text_rows(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> pa.Table:
    """A table of text columns."""
    listed = [tuple(row) for row in rows]
    arrays = [pa.array([row[i] for row in listed], pa.string()) for i in range(len(columns))]
    return pa.Table.from_arrays(arrays, names=list(columns))


def counts_row(counts: Mapping[str, int | None]) -> pa.Table:
    """One row of whole numbers."""
    return pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names, sorted, that match a pattern of SHOW … LIKE: ``*`` is anything, ``|`` is or, case does not count."""
    if pattern is None:
        return sorted(names)
    choices = [p.strip().lower().replace("[", "[[]").replace("%", "*") for p in pattern.split("|")]
    return sorted(n for n in names if any(fnmatchcase(n.lower(), c) for c in choices))

"""A query made ready for Spark: its text, and the reads that the names in it stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from lakelog.catalog.base import Identifier
from lakelog.errors import LakelogError, UnsupportedStatement

LOOKUP_KEY: Final = "_lakelog_key_"
"""What the names of the columns begin with that are looked up, numbered from 0."""
LOOKUP_FOUND: Final = "_lakelog_found"
COUNTED: Final = "_lakelog_rows"


@dataclass(frozen=True)
class Source:
    """One reference of the query to a lakelog table: make this read visible as a view before the text runs.

    ``columns`` are those that the query names, in the table's order; None means all of them, with the extra
    columns that a read of changes has. ``options`` are canonical read options of the reference's hint.
    ``filter`` is a condition (text for ``parse_filter``) by which the read may skip rows; the query's text still has
    it. With ``counts`` the view has, for each value of the columns (of the partition), how many rows there are, in
    ``COUNTED``: the text adds them up. With ``limit`` the query asks for no more than so many rows, whichever.
    """

    view: str
    table: Identifier
    columns: tuple[str, ...] | None
    options: dict[str, str]
    filter: str | None = None
    counts: bool = False
    limit: int | None = None
    joined: tuple[tuple[str, str, str], ...] = ()
    """Joins that choose partitions: a partition column, another view, and the column there that has its values."""


@dataclass(frozen=True)
class Lookup:
    """A lookup join of the query: make its outcome visible as a view before the text runs, behind the sources.

    ``text`` is a query; the rows of ``table`` are looked up whose columns ``on`` equal its columns ``LOOKUP_KEY`` 0, 1,
    … (``labels``: what these are in the user's text). The view has its other columns, and ``LOOKUP_FOUND``: the array
    of the rows that were found, structs of ``columns`` (None: all). ``options`` are canonical read options.
    """

    view: str
    text: str
    table: Identifier
    columns: tuple[str, ...] | None
    options: dict[str, str]
    on: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class QueryPlan:
    """The user's text with every lakelog table replaced by a view name; all other bytes are the user's.

    ``syntax_error`` is set when the text could not be understood here; Spark may know more. ``lasting`` says that
    the text makes something that goes on using the views (CREATE VIEW).
    """

    text: str
    sources: tuple[Source, ...]
    syntax_error: str | None = None
    lasting: bool = False
    lookups: tuple[Lookup, ...] = ()

    @property
    def reads_tables(self) -> bool:
        """Whether lakelog tables are in it."""
        return bool(self.sources or self.lookups)

    def behind(self, head: str) -> QueryPlan:
        """The same plan for a statement that the query is the rest of, such as ``EXPLAIN ``."""
        return replace(self, text=head + self.text)

    @property
    def identity(self) -> str:
        """A text that is the same whenever the same query is planned: view names give way to what they stand for.

        A streaming insert takes its checkpoint by it, so the same statement goes on where it stopped.
        """
        reads = {s.view: f"{s.table}{sorted(s.options.items())}" for s in self.sources}

        def plain(text: str) -> str:
            return re.sub(r"\w+", lambda word: reads.get(word[0], word[0]), text)

        for found in self.lookups:
            options = sorted(found.options.items())
            reads[found.view] = f"{found.table}{options}({plain(found.text)})"
        text = plain(self.text)
        return " ".join(text.split())

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Around the engine's call: a refusal of a text that was not understood here either is UnsupportedStatement.

        It points at the place in the user's text, which the engine never saw, and holds the engine's first words.
        """
        try:
            yield
        except LakelogError:
            raise
        except Exception as refusal:
            if self.syntax_error is None:
                raise
            said = str(refusal).strip().partition("\n")[0]
            raise UnsupportedStatement(f"{self.syntax_error}\nSpark: {said}") from refusal

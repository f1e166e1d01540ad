"""A query prepared for Spark: its text, and the reads that its names refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from lakelog.catalog.base import Identifier
from lakelog.errors import LakelogError, UnsupportedStatement

LOOKUP_KEY: Final = "_lakelog_key_"
"""Name prefix of the lookup key columns, numbered from 0."""
LOOKUP_LEFT: Final = "_lakelog_left_"
"""Name prefix of the struct columns with the rows of the other relations, numbered from 0."""
LOOKUP_FOUND: Final = "_lakelog_found"
COUNTED: Final = "_lakelog_rows"
FILE: Final = "_lakelog_file"
"""Column of lakelog's own queries with the file of a row, by Spark's function; empty if Spark does not read it."""


@dataclass(frozen=True)
class Source:
    """One reference of the query to a lakelog table; the engine creates a view of this read before it runs the text.

    ``columns`` are the columns that the query uses, in the table's order. None means all of them, with the extra
    columns of a read of changes. ``options`` are canonical read options of the reference's hint. ``filter`` is a
    condition (text for ``parse_filter``) by which the read may skip rows; the query's text still has it. With
    ``counts`` the view has the row count per value of the (partition) columns in ``COUNTED``, and the text sums the
    counts. With ``limit`` the query needs at most this number of rows, in any order.
    """

    view: str
    table: Identifier
    columns: tuple[str, ...] | None
    options: dict[str, str]
    filter: str | None = None
    counts: bool = False
    limit: int | None = None
    joined: tuple[tuple[str, str, str], ...] = ()
    """Joins that select partitions: a partition column, another view, and the column there with its values."""


@dataclass(frozen=True)
class Lookup:
    """A lookup join of the query; the engine creates a view of its result after the sources, before it runs the text.

    ``text`` is a query. The join looks up the rows of ``table`` whose columns ``on`` equal the query's columns
    ``LOOKUP_KEY`` 0, 1, … (``labels``: their text in the user's query). The view has the other columns of the query,
    and ``LOOKUP_FOUND``: the array of found rows, structs of ``columns`` (None: all). ``options`` are canonical read
    options.
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

    ``syntax_error`` is set if lakelog could not parse the text, which Spark may still support. ``persistent``: the
    text creates an object that continues to use the views (CREATE VIEW). ``write`` is what EXPLAIN says of a
    statement that writes the rows, and ``why_spark`` why Spark runs the query.
    """

    text: str
    sources: tuple[Source, ...]
    syntax_error: str | None = None
    persistent: bool = False
    lookups: tuple[Lookup, ...] = ()
    write: str | None = None
    why_spark: str = ""

    @property
    def reads_tables(self) -> bool:
        """True if the plan reads lakelog tables."""
        return bool(self.sources or self.lookups)

    def with_prefix(self, head: str, write: str | None = None) -> QueryPlan:
        """The same plan with the start of a statement before it, such as ``EXPLAIN ``.

        ``write`` says what the statement does with the rows.
        """
        return replace(self, text=head + self.text, write=write)

    @property
    def identity(self) -> str:
        """A stable text of the query, in which the sources replace the view names.

        It determines the checkpoint of a streaming insert, so that the same statement resumes from its checkpoint.
        """
        reads = {s.view: f"{s.table}{sorted(s.options.items())}" for s in self.sources}

        def plain(text: str) -> str:
            return re.sub(r"\w+", lambda word: reads.get(word[0], word[0]), text)

        for lookup in self.lookups:
            options = sorted(lookup.options.items())
            reads[lookup.view] = f"{lookup.table}{options}({plain(lookup.text)})"
        text = plain(self.text)
        return " ".join(text.split())

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Context of the engine's call that raises UnsupportedStatement if neither side can parse the text.

        The error names the position in the user's text, which the engine never saw, and the engine's first line.
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

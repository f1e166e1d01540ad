"""Temporary views over lakelog tables: they show the rows of now each time that a text names them.

Spark keeps the text of a view, and with the relation of a Python source the rows that its first query has planned. So
the views that stand for the tables in that text are made anew before a text that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakelog.errors import LakelogError
from lakelog.sql.runtime.query_plan import Source

_WORD: Final = re.compile(r"\w+")
_MADE: Final = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?"
    r"(?:\w+\s*\.\s*)?`?(\w+)",
    re.IGNORECASE,
)


class TempViews:
    """The temporary views of a session that texts have made, and the tables behind them."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._words: dict[str, frozenset[str]] = {}

    def keep(self, sources: Iterable[Source]) -> None:
        """Remembers what the views in the text of a user's view stand for."""
        self._sources |= {source.view.lower(): source for source in sources}

    def made(self, text: str) -> None:
        """Called with each text that Spark has run: one that makes a view is remembered by its words."""
        found = _MADE.match(text)
        if found is not None:
            self._words[found[1].lower()] = _words(text)

    def renew(self, spark: SparkSession, text: str, frame_of: Callable[[Source], DataFrame]) -> None:
        """Lets the views that a text may name read the rows of now; those without their table are no more.

        Called before Spark runs the text, which may only look like it names them: so nothing is raised.
        """
        for source in self.read_by(text):
            try:
                frame_of(source).createOrReplaceTempView(source.view)
            except LakelogError:
                spark.catalog.dropTempView(source.view)

    def read_by(self, text: str) -> list[Source]:
        """The reads behind the views that a text may name, also by way of other views."""
        if not self._sources or not self._words:
            return []
        seen: set[str] = set()
        todo = set(_words(text))
        while todo:
            word = todo.pop()
            if word not in seen:
                seen.add(word)
                todo |= self._words.get(word, frozenset())
        return [source for view, source in self._sources.items() if view in seen]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))

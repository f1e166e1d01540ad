"""SQL statements over frames that have no name, as a table runs them."""

from __future__ import annotations

from typing import Any

from lakelog.catalog.base import Identifier
from lakelog.lake.lazy_engine import LazyEngine
from lakelog.sql.session import Session
from lakelog.sql.syntax.lexer import quoted_name


class LakeStatements:
    """Statements of the lake's session over frames, as its tables see them."""

    def __init__(self, session: Session, engine: LazyEngine) -> None:
        self._session, self._engine = session, engine

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement in which ``{name}`` stands for one of the frames."""
        with self._engine.started.named(frames) as views:
            for name, view in views.items():
                text = text.replace(f"{{{name}}}", view)
            return self._session.run(text)

    def name_of(self, identifier: Identifier) -> str:
        """A table's name in these statements, with its catalog where it would mean another table without."""
        return ".".join(map(quoted_name, self._session.parts_of(identifier)))

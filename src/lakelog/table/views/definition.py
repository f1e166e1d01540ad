"""The definition of a materialized view, an option of the view's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.options.view import VIEW
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.json_record import JsonRecord

ROW_KEY: Final = "_key"
"""Column of a view whose key columns may be NULL: the values of its key as a JSON array of texts."""


@dataclass(frozen=True)
class ViewDefinition(JsonRecord):
    """The query of a view and when it is refreshed.

    ``id`` names the writer of the view in its table, and its reader in the sources. ``query`` is the text of the user,
    whose names without database or catalog are in ``database`` and ``catalog``. ``every_ms`` is the interval of
    refreshes in milliseconds, 0 for one after each commit of a source, None if only a statement refreshes. ``zone`` is
    the time zone of the session that created the view, ``sources`` are the full names of the tables that it reads,
    ``key`` are the columns that identify a row (they may be NULL).
    """

    id: str
    query: str
    catalog: str
    database: str
    zone: str
    sources: tuple[str, ...]
    key: tuple[str, ...]
    every_ms: int | None = None
    suspended: bool = False

    @property
    def writer(self) -> str:
        """The writer of the view's epochs, and the consumer in its sources that keeps their snapshots."""
        return f"view-{self.id}"

    @property
    def refreshes(self) -> str:
        """When the view is refreshed, as in CREATE MATERIALIZED VIEW."""
        if self.every_ms is None:
            return "manual"
        return f"every {self.every_ms / 1000:g} seconds" if self.every_ms else "on commit"

    @property
    def refresh_clause(self) -> str:
        """What CREATE MATERIALIZED VIEW has after REFRESH."""
        if not self.every_ms:
            return "MANUAL" if self.every_ms is None else "ON COMMIT"
        seconds, rest = divmod(self.every_ms, 1000)
        return f"EVERY {self.every_ms} MILLISECONDS" if rest else f"EVERY {seconds} SECONDS"

    @property
    def text(self) -> str:
        """The value of the option."""
        return self.to_json().decode()

    @staticmethod
    def of(schema: TableSchema) -> ViewDefinition | None:
        """The definition in a schema; None for a table that is no view. Raises Corrupt."""
        text = schema.options.get(VIEW.key)
        if text is None:
            return None
        try:
            values = orjson.loads(text)
        except orjson.JSONDecodeError as why:
            raise Corrupt(f"option '{VIEW.key}' is no definition of a view: {why}") from None
        if not isinstance(values, dict):
            raise Corrupt(f"option '{VIEW.key}' is no definition of a view: it is no JSON object")
        return ViewDefinition.from_values(values)

    @staticmethod
    def need(schema: TableSchema, name: str) -> ViewDefinition:
        """The definition in a schema. Raises InvalidRequest for a table that is no view."""
        definition = ViewDefinition.of(schema)
        if definition is None:
            raise InvalidRequest(f"table {name} is no materialized view: CREATE MATERIALIZED VIEW makes one")
        return definition

"""The definition of a materialized view, an option of the view's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.options.option import parse_duration
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
        """When the view is refreshed, as after REFRESH in CREATE MATERIALIZED VIEW."""
        if not self.every_ms:
            return "manual" if self.every_ms is None else "on commit"
        seconds, rest = divmod(self.every_ms, 1000)
        return f"every {self.every_ms} milliseconds" if rest else f"every {seconds} seconds"

    @staticmethod
    def parse_refreshes(text: str) -> int | None:
        """The value of ``every_ms`` for ``on commit``, ``manual`` or an interval. Raises InvalidRequest.

        ```python
        assert ViewDefinition.parse_refreshes("every 2 minutes") == 120_000
        ```
        """
        words = " ".join(text.lower().split())
        if words in ("on commit", "manual"):
            return 0 if words == "on commit" else None
        try:
            every = int(parse_duration(words.removeprefix("every ")).total_seconds() * 1000)
        except ValueError:
            every = 0
        if every <= 0:
            raise InvalidRequest(
                f"a view cannot be refreshed '{text}': write 'on commit', 'manual' or an interval such as '1 minute'"
            )
        return every

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

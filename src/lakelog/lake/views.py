"""The materialized views of a lake."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lakelog.lake.arguments import with_checked_arguments
from lakelog.options.boundary import Public
from lakelog.sql.parse import Session
from lakelog.sql.runtime.tables import views_of
from lakelog.sql.views.create import create_view, drop_view, refresh_view
from lakelog.sql.views.refresh import Refresh
from lakelog.sql.views.runner import Failed, ViewRunner, chosen_views
from lakelog.table.views.definition import ViewDefinition


@with_checked_arguments
class Views(Public):
    """``Lake.views``: creates, lists, refreshes and drops materialized views, and keeps them fresh."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self, name: str, query: str, refresh: str = "on commit", options: Mapping[str, str] | None = None
    ) -> Refresh:
        """Creates a view of a query and computes its rows.

        ``refresh`` is ``on commit``, ``manual`` or an interval such as ``1 minute``. ``options`` are options of the
        view's table. Raises AlreadyExists, NotFound for an unknown source, UnsupportedFeature for a query that no
        refresh can follow, InvalidRequest.

        ```python
        lake.views.create("db.totals", "select state, count(*) as orders from db.orders group by state")
        ```
        """
        every_ms = ViewDefinition.parse_refreshes(refresh)
        return create_view(self._session, self._session.identifier(name), query, every_ms, options or {})

    def list(self) -> list[str]:
        """The names of the views of the current catalog."""
        return [str(name) for name, _ in views_of(self._session.tables, self._session.current_catalog)]

    def refresh(self, name: str) -> Refresh:
        """Brings a view to the newest rows of its sources, and makes a snapshot of it.

        Raises NotFound, InvalidRequest for a table, for a source that is another table than before, and for one with
        other columns.
        """
        return refresh_view(self._session, self._session.identifier(name))

    def rebuild(self, name: str) -> Refresh:
        """Computes all rows of a view, also after a source was dropped and created again. Raises as ``refresh``."""
        return refresh_view(self._session, self._session.identifier(name), rebuild=True)

    def drop(self, name: str, if_exists: bool = False) -> None:
        """Drops a view. Raises NotFound, InvalidRequest for a table or the source of another view."""
        drop_view(self._session, self._session.identifier(name), if_exists)

    def explain(self, name: str) -> str:
        """Shows which engine computes a view, and what it computes after a change of a source."""
        quoted = ".".join(f"`{part}`" for part in self._session.parts_of(self._session.identifier(name)))
        rows = self._session.run(f"EXPLAIN MATERIALIZED VIEW {quoted}")[0]
        assert isinstance(rows, pa.Table)
        return str(rows.column(0)[0])

    def ordered(self, names: Sequence[str] | None = None) -> Sequence[str]:
        """The names of views (None: all), each after the views that it reads. Raises NotFound."""
        chosen = None if names is None else [self._session.identifier(name) for name in names]
        return [str(name) for name in chosen_views(self._session, chosen)]

    def run(
        self, names: Sequence[str] | None = None, stop: threading.Event | None = None, failed: Failed | None = None
    ) -> Iterator[Refresh]:
        """Keeps views fresh until ``stop`` is set; yields each refresh that had something to do.

        ``names`` selects views; without, all views of the catalog, also those created later. A view that fails is
        tried again after a pause; ``failed`` is called with its name and the error. Several processes may run the same
        views.
        """
        return ViewRunner(self._session, names).run(stop or threading.Event(), failed)

"""Keeps materialized views fresh: refreshes each one when its sources have changed, or at its interval."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.catalog.base import Identifier
from lakelog.errors import LakelogError, NotFound
from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.tables import views_of
from lakelog.sql.views.refresh import Refresh, ViewRefresher
from lakelog.sql.views.sources import SourceReads
from lakelog.table.views.definition import ViewDefinition

Failed = Callable[[str, LakelogError], None]
"""Called with the name of a view that could not be refreshed, and the error."""

_LOG: Final = logging.getLogger("lakelog.views")
_SHORT_POLL_S: Final = 0.01
_POLL_S: Final = 0.1
"""Limits of the pause between two looks at the sources: short after a change, twice as long each time without one."""
_LIST_S: Final = 5.0
"""Seconds after which a runner looks for new views."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
"""Limits of the pause after a failure, which is twice as long each time."""


@dataclass
class _Kept:
    """A view that a runner keeps fresh: when it is next due, and the pause after its last failures."""

    definition: ViewDefinition
    refresher: ViewRefresher
    due_s: float = float("-inf")
    pause_s: float = 0.0


class ViewRunner:
    """Keeps views fresh in this process, each after the views that it reads. Not for several threads.

    ``names`` selects views (None: all of the current catalog, also those created later). Suspended views and those
    with REFRESH MANUAL are left alone.
    """

    def __init__(self, session: SessionContext, names: Sequence[str] | None = None) -> None:
        self._session = session
        self._chosen = None if names is None else [session.identifier(name) for name in names]
        self._kept: dict[Identifier, _Kept] = {}
        self._listed_s = float("-inf")
        self._reads = SourceReads(session)

    def run(self, stop: threading.Event, failed: Failed | None = None) -> Iterator[Refresh]:
        """Refreshes until ``stop`` is set; yields each refresh that had something to do.

        A view that fails is tried again after a pause, and the others go on; ``failed`` is called with its name and the
        error.
        """
        try:
            pause = _POLL_S
            while not stop.is_set():
                pause = min(_POLL_S, pause * 2)
                for refresh in self.step(failed):
                    if not refresh.is_current:
                        pause = _SHORT_POLL_S
                        yield refresh
                stop.wait(pause)
        finally:
            self.close()

    def step(self, failed: Failed | None = None) -> Iterator[Refresh]:
        """Refreshes the views that are due, once."""
        self._reads.forget()
        if monotonic_s() > self._listed_s + _LIST_S:
            self._list()
        for identifier, entry in list(self._kept.items()):
            if monotonic_s() < entry.due_s:
                continue
            try:
                refresh = entry.refresher.refresh()
            except LakelogError as why:
                entry.pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, entry.pause_s * 2))
                entry.due_s = monotonic_s() + entry.pause_s
                _LOG.warning("view %s: %s", identifier, why, extra=fields(table=str(identifier)))
                if failed is not None:
                    failed(str(identifier), why)
                continue
            entry.pause_s = 0.0
            entry.due_s = monotonic_s() + (entry.definition.every_ms or 0) / 1000
            yield refresh

    def close(self) -> None:
        """Makes snapshots of the views, and removes the local states."""
        for entry in self._kept.values():
            try:
                entry.refresher.end()
            except LakelogError as why:
                _LOG.warning("the rows of a view have no snapshot yet: %s", why)
                entry.refresher.close()
        self._kept = {}

    def _list(self) -> None:
        """Adds new views, drops removed and suspended ones, and takes the newest definitions."""
        self._listed_s = monotonic_s()
        views = chosen_views(self._session, self._chosen)
        due = {name: view for name, view in views.items() if not view.suspended and view.every_ms is not None}
        for name in [name for name in self._kept if name not in due or due[name].id != self._kept[name].definition.id]:
            self._kept.pop(name).refresher.close()
        entries = {
            name: self._kept.get(name)
            or _Kept(view, ViewRefresher(self._session, name, tempfile.gettempdir(), self._reads))
            for name, view in due.items()
        }
        for name, view in due.items():
            entries[name].definition = view
        self._kept = entries


def chosen_views(session: SessionContext, chosen: Collection[Identifier] | None) -> dict[Identifier, ViewDefinition]:
    """Views of the current catalog (None: all), each after the views that it reads. Raises NotFound."""
    views = dict(views_of(session.tables, session.current_catalog))
    missing = [name for name in chosen or () if name not in views]
    if missing:
        raise NotFound(f"there is no materialized view {missing[0]}; there are: {', '.join(map(str, views)) or 'none'}")
    return {name: views[name] for name in _by_dependency(views) if chosen is None or name in chosen}


def _by_dependency(views: Mapping[Identifier, ViewDefinition]) -> list[Identifier]:
    """The views in an order in which each one follows those that it reads."""
    by_name = {str(name): name for name in views}
    out: list[Identifier] = []
    seen = set[Identifier]()  # renamed views may name each other; their refresh says so

    def add(name: Identifier) -> None:
        if name not in seen:
            seen.add(name)
            for source in views[name].sources:
                if source in by_name:
                    add(by_name[source])
            out.append(name)

    for name in views:
        add(name)
    return out

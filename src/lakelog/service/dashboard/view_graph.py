"""Data of the page of materialized views: each view with its sources, and the places of both in a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.io.quantities import format_duration
from lakelog.service.dashboard.watcher import Watched
from lakelog.table.health.score import VIEW_BEHIND, VIEW_FAILED, VIEW_SOURCE, VIEW_SUSPENDED, Finding
from lakelog.table.health.stats import ViewStats
from lakelog.table.views.report import ViewReport
from lakelog.table.views.sources import BEHIND, CURRENT, REPLACED, UNREADABLE, SourceState

_WIDTH, _HEIGHT = 240, 56
"""Size of a node in pixels; one with more sources is higher."""
_GAP_X, _GAP_Y, _MARGIN, _ARROWS = 170, 20, 8, 26
_MOST_CHARACTERS: Final = 28
_STATES: Final = {
    VIEW_SOURCE: "source lost",
    VIEW_FAILED: "failed",
    VIEW_BEHIND: "late",
    VIEW_SUSPENDED: "suspended",
}


@dataclass(frozen=True)
class SourceLine:
    """A source of a view: ``state`` and snapshots are those of ``SourceState``, ``label`` says them in words."""

    name: str
    state: str
    label: str
    position: int | None
    newest: int | None
    behind: int | None
    lag_ms: int | None
    is_bad: bool


@dataclass(frozen=True)
class ViewLine:
    """A view. ``state`` is ``current``, ``behind``, ``late``, ``suspended``, ``failed``, ``source lost`` or
    ``unreadable``; ``is_bad`` is True if something has to be done, which ``reason`` and ``what_to_do`` say.

    ``lag_ms`` is the age of the oldest commit that it lacks, 0 if it has all, None if unknown. ``refresh`` is when it
    is refreshed. The last refresh ended at ``refreshed_ms``, took ``seconds`` and changed ``rows`` rows.
    """

    name: str
    state: str
    is_bad: bool
    reason: str
    what_to_do: str
    lag_ms: int | None
    refresh: str
    suspended: bool
    computed_by: str
    refreshed_ms: int | None
    seconds: float
    rows: int
    query: str
    sources: Sequence[SourceLine]


@dataclass(frozen=True)
class Node:
    """A table or view in the graph; ``x`` and ``y`` are its upper left corner in pixels.

    ``is_known`` is False for one that is not in the list of tables, such as a dropped source.
    """

    name: str
    label: str
    is_view: bool
    is_known: bool
    state: str
    is_bad: bool
    x: int
    y: int
    height: int
    width: int = _WIDTH


@dataclass(frozen=True)
class Edge:
    """An arrow from a source to a view, with the state of the source in words, whose right end is at ``x``, ``y``."""

    source: str
    view: str
    label: str
    is_bad: bool
    path: str
    x: int
    y: int


@dataclass(frozen=True)
class ViewGraph:
    """The views, those with a fault first, and the graph of sources and views from left to right."""

    views: Sequence[ViewLine]
    bad: int
    suspended: int
    lag_ms: int | None
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    width: int
    height: int


def view_graph(tables: Sequence[Watched]) -> ViewGraph:
    """The views among inspected tables, and their graph. Pure."""
    views = {line.name: line for one in tables if (line := view_line(one)) is not None}
    nodes = _nodes(views, {one.name for one in tables})
    return ViewGraph(
        sorted(views.values(), key=lambda line: (not line.is_bad, -(line.lag_ms or 0), line.name)),
        sum(line.is_bad for line in views.values()),
        sum(line.suspended for line in views.values()),
        max((line.lag_ms for line in views.values() if line.lag_ms is not None), default=None),
        list(nodes.values()),
        [edge for line in views.values() for edge in _edges(line, nodes)],
        max((node.x + node.width for node in nodes.values()), default=0) + _MARGIN,
        max((node.y + node.height for node in nodes.values()), default=0) + _MARGIN,
    )


def view_line(watched: Watched) -> ViewLine | None:
    """The last inspection of a view; None for a table, and for a view that cannot be opened."""
    stats = watched.health.figures
    if stats is None or stats.view is None:
        return None
    view, lag_ms = stats.view, stats.view.lag_ms(stats.looked_ms)
    finding = next(
        (one for one in watched.health.findings if one.kind in _STATES), Finding("", "", "", is_warning=True)
    )
    report = view.report or ViewReport()
    return ViewLine(
        watched.name,
        _STATES.get(finding.kind) or _state(view, lag_ms),
        not finding.is_warning,
        finding.reason,
        finding.what_to_do,
        lag_ms,
        view.refresh,
        view.suspended,
        report.computed_by,
        report.refreshed_ms,
        report.seconds,
        report.rows,
        view.query,
        [_source(one, stats.looked_ms) for one in view.sources],
    )


def _state(view: ViewStats, lag_ms: int | None) -> str:
    if all(one.state == CURRENT for one in view.sources):
        return CURRENT
    return UNREADABLE if lag_ms is None else BEHIND


def _source(one: SourceState, now_ms: int) -> SourceLine:
    lag_ms = one.lag_ms(now_ms)
    label = "created again" if one.state == REPLACED else one.state
    if one.state == BEHIND:
        number = "behind" if one.behind is None else f"{one.behind:,} behind"
        label = number if lag_ms is None else f"{number}, {format_duration(lag_ms)}"
    is_bad = one.state not in (CURRENT, BEHIND)
    return SourceLine(one.name, one.state, label, one.position, one.newest, one.behind, lag_ms, is_bad)


def _nodes(views: Mapping[str, ViewLine], tables: set[str]) -> dict[str, Node]:
    """The nodes: tables on the left, each view right of all that it reads, and beside them."""
    columns: dict[int, list[str]] = {}
    for name, column in _columns(views).items():
        columns.setdefault(column, []).append(name)
    nodes: dict[str, Node] = {}
    for column, names in sorted(columns.items()):
        y = _MARGIN
        for name in sorted(names, key=lambda name: (_middle_of_sources(views.get(name), nodes), name)):
            line = views.get(name)
            x, height = _MARGIN + column * (_WIDTH + _GAP_X), max(_HEIGHT, _ARROWS * _number_of_sources(line))
            state = line.state if line is not None else "table" if name in tables else "not there"
            is_bad = line.is_bad if line is not None else name not in tables
            nodes[name] = Node(name, _label(name), line is not None, name in tables, state, is_bad, x, y, height)
            y += height + _GAP_Y
    return nodes


def _columns(views: Mapping[str, ViewLine]) -> dict[str, int]:
    """Table or view → its column: 0 for tables, one more than its sources for a view."""
    out: dict[str, int] = {}

    def column(name: str, readers: tuple[str, ...]) -> int:
        if name not in out:
            sources = [one.name for one in views[name].sources if one.name not in readers] if name in views else []
            out[name] = max((column(source, (*readers, source)) + 1 for source in sources), default=0)
        return out[name]

    for name in sorted(views):
        column(name, (name,))
    return out


def _middle_of_sources(line: ViewLine | None, nodes: Mapping[str, Node]) -> float:
    heights = [nodes[one.name].y for one in line.sources if one.name in nodes] if line is not None else []
    return sum(heights) / len(heights) if heights else 0.0


def _number_of_sources(line: ViewLine | None) -> int:
    return 0 if line is None else len(line.sources)


def _label(name: str) -> str:
    return name if len(name) <= _MOST_CHARACTERS else f"…{name[1 - _MOST_CHARACTERS :]}"


def _edges(line: ViewLine, nodes: Mapping[str, Node]) -> Iterator[Edge]:
    """The arrows into a view, from top to bottom as their sources are."""
    view = nodes[line.name]
    for at, one in enumerate(sorted(line.sources, key=lambda one: (nodes[one.name].y, one.name)), 1):
        source = nodes[one.name]
        x, y = view.x, view.y + view.height * at // (len(line.sources) + 1)
        start, height = source.x + source.width, source.y + source.height // 2
        bend = view.x - _GAP_X
        path = f"M{start} {height} H{bend} C{bend + 40} {height} {bend + 20} {y} {bend + 60} {y} H{x - 6}"
        yield Edge(one.name, line.name, one.label, one.is_bad, path, x - 12, y - 5)

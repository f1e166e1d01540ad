"""Draws the packages of lakelog and their imports, for light and dark pages: ``make docs``.

A package stands below all that import it. An arrow is a direct import that no longer way through other packages
implies. A box lists the rooms of its package; each imports only rooms that come after it. ``--check`` writes nothing
and fails if a picture is not the one of today's imports.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import grimp
from generated_files import write_or_check

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "docs" / "assets"
SOURCE = ROOT / "src" / "lakelog"
COLORS = {
    "light": {"box": "#f6f8fa", "edge": "#d0d7de", "room": "#ffffff", "name": "#0969da", "text": "#57606a"},
    "dark": {"box": "#161b22", "edge": "#30363d", "room": "#21262d", "name": "#58a6ff", "text": "#9da7b1"},
}
Imports = Mapping[str, frozenset[str]]

# In pixels.
WIDTH, MARGIN, GAP, CHANNEL, PADDING = 960, 8, 20, 40, 12
LINE, ROOM_HEIGHT, ROOM_GAP, PASSAGE = 16, 20, 6, 56
CHARACTER, NARROW_CHARACTER = 7.3, 6.4


def imports_between(graph: grimp.ImportGraph, package: str) -> Imports:
    """The children of a package → those of its other children that they import directly, anywhere within."""
    found: dict[str, set[str]] = {child: set() for child in graph.find_children(package)}
    part_of = {module: child for child in found for module in (child, *graph.find_descendants(child))}
    for module, child in part_of.items():
        imported = graph.find_modules_directly_imported_by(module)
        found[child] |= {part_of[other] for other in imported if other in part_of} - {child}
    return {name: frozenset(others) for name, others in sorted(found.items())}


def below(imports: Imports, name: str) -> frozenset[str]:
    """All that a part imports, directly or through others."""
    return imports[name].union(*(below(imports, other) for other in imports[name]))


def turned(imports: Imports) -> Imports:
    """Each part → those that import it."""
    return {name: frozenset(other for other in imports if name in imports[other]) for name in imports}


def heights(imports: Imports) -> dict[str, int]:
    """How many imports the longest way from each part has."""

    @cache
    def height(name: str) -> int:
        return max((height(other) + 1 for other in imports[name]), default=0)

    return {name: height(name) for name in imports}


def without_detours(imports: Imports) -> Imports:
    """The imports that no longer way implies."""
    return {
        name: frozenset(o for o in others if not any(o in below(imports, between) for between in others))
        for name, others in imports.items()
    }


@dataclass(frozen=True)
class Box:
    """A package as it is drawn: its first sentence and its rooms."""

    name: str
    sentence: str
    rooms: tuple[str, ...]

    @property
    def wish(self) -> float:
        """The width that it asks for; the boxes of a row share the row in proportion."""
        return 300 + sum(_room_width(room) for room in self.rooms) / 2

    def sentence_lines(self, width: float) -> list[str]:
        """The sentence in lines; the first leaves room for the name."""
        columns = int((width - 2 * PADDING) / NARROW_CHARACTER)
        lead = " " * int((len(self.name) + 2) * CHARACTER / NARROW_CHARACTER + 1)
        lines = textwrap.wrap(self.sentence, columns, initial_indent=lead, drop_whitespace=True)
        return [lines[0].strip(), *lines[1:]]

    def placed_rooms(self, width: float) -> list[tuple[float, int, str]]:
        """Left edge, line and name of each room, in lines as wide as the box."""
        placed, left, line = [], float(PADDING), 0
        for room in self.rooms:
            if left > PADDING and left + _room_width(room) > width - PADDING:
                left, line = float(PADDING), line + 1
            placed.append((left, line, room))
            left += _room_width(room) + ROOM_GAP
        return placed

    def height(self, width: float) -> float:
        """The height that it needs at a width."""
        lines = max((line + 1 for _, line, _ in self.placed_rooms(width)), default=0)
        rooms = lines * (ROOM_HEIGHT + ROOM_GAP) + 2 if lines else 0
        return 2 * PADDING - 6 + LINE * len(self.sentence_lines(width)) + rooms


@dataclass(frozen=True)
class Place:
    """Where a box, or the passage of arrows through a row, lies."""

    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


def _room_width(room: str) -> float:
    return len(room) * CHARACTER + 14


def read_boxes(graph: grimp.ImportGraph) -> dict[str, Box]:
    """The packages of lakelog by name; a room is a package within them."""
    boxes = {}
    for package in sorted(graph.find_children("lakelog")):
        name = package.rpartition(".")[2]
        folder = SOURCE / name
        module = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
        height = heights(imports_between(graph, package))
        rooms = sorted((-n, part.rpartition(".")[2]) for part, n in height.items() if graph.find_children(part))
        sentence = text.partition("\n")[0].partition(". ")[0].rstrip(".")
        boxes[name] = Box(name, sentence, tuple(room for _, room in rooms))
    return boxes


def plan_rows(imports: Imports) -> tuple[list[list[str]], set[tuple[str, str]]]:
    """The parts of each row from the left, and the arrows from row to row.

    An arrow over several rows goes through passages, one for each of its targets: ``row:target``.
    """
    depth = heights(turned(imports))
    rows: list[set[str]] = [set() for _ in range(max(depth.values()) + 1)]
    arrows = set()
    for name, others in imports.items():
        rows[depth[name]].add(name)
        for other in others:
            way = [name, *(f"{row}:{other}" for row in range(depth[name] + 1, depth[other])), other]
            arrows |= set(itertools.pairwise(way))
            for passage in way[1:-1]:
                rows[int(passage.partition(":")[0])].add(passage)
    return _untangled(rows, arrows), arrows


def _untangled(rows: list[set[str]], arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The rows, each in an order: those in which fewest arrows cross, then in which the arrows are shortest."""
    sides = sorted(arrows)

    def cost(orders: tuple[tuple[str, ...], ...]) -> tuple[int, float]:
        place = {
            name: (row, (n + 0.5) / len(order)) for row, order in enumerate(orders) for n, name in enumerate(order)
        }
        lines = [(*place[start], place[end][1]) for start, end in sides]
        pairs = itertools.combinations(lines, 2)
        crossings = sum(row == other and (a - c) * (b - d) < 0 for (row, a, b), (other, c, d) in pairs)
        return crossings, round(sum(abs(a - b) for _, a, b in lines), 6)

    return [
        list(order) for order in min(itertools.product(*(itertools.permutations(sorted(r)) for r in rows)), key=cost)
    ]


def place_rows(rows: list[list[str]], boxes: Mapping[str, Box]) -> dict[str, Place]:
    """Where all parts lie: rows from the top, each as wide as the picture."""
    places, top = {}, float(MARGIN)
    for row in rows:
        passages = sum(name not in boxes for name in row)
        free = WIDTH - 2 * MARGIN - GAP * (len(row) - 1) - PASSAGE * passages
        wishes = sum(boxes[name].wish for name in row if name in boxes)
        widths = {name: free * boxes[name].wish / wishes if name in boxes else PASSAGE for name in row}
        height = max(boxes[name].height(widths[name]) for name in row if name in boxes)
        left = float(MARGIN)
        for name in row:
            places[name] = Place(left, top, widths[name], height)
            left += widths[name] + GAP
        top += height + CHANNEL
    return places


def draw_arrows(arrows: set[tuple[str, str]], places: Mapping[str, Place], boxes: Mapping[str, Box]) -> list[str]:
    """The lines of the arrows: straight down if the two parts lie below each other."""
    drawn = []
    for target in sorted({end for _, end in arrows}):
        end = places[target]
        sources = sorted((start for start, other in arrows if other == target), key=lambda name: places[name].middle)
        for number, source in enumerate(sources, 1):
            start = places[source]
            is_box = target in boxes
            down = end.left + end.width * number / (len(sources) + 1) if is_box else end.middle
            edge = PADDING + 8 if source in boxes else start.width / 2
            out = min(max(down, start.left + edge), start.left + start.width - edge)
            first, last = start.top + start.height, end.top - (2 if is_box else 0)
            bend = (first + last) / 2
            tip = ' marker-end="url(#tip)"' if is_box else ""
            curve = f"M{out:.0f} {first:.0f}C{out:.0f} {bend:.0f} {down:.0f} {bend:.0f} {down:.0f} {last:.0f}"
            drawn.append(f'<path class="arrow" d="{curve}"{tip}/>')
        if target not in boxes:
            drawn.append(f'<path class="arrow" d="M{end.middle:.0f} {end.top:.0f}v{end.height:.0f}"/>')
    return drawn


def draw_box(box: Box, place: Place) -> list[str]:
    """The lines of one package."""
    left, top = place.left + PADDING, place.top + PADDING + 6
    frame = f'x="{place.left:.0f}" y="{place.top:.0f}" width="{place.width:.0f}" height="{place.height:.0f}"'
    drawn = [
        f'<rect class="box" {frame} rx="8"/>',
        f'<text class="name" x="{left:.0f}" y="{top:.0f}">{box.name}</text>',
    ]
    lines = box.sentence_lines(place.width)
    for number, line in enumerate(lines):
        start = left + (0 if number else (len(box.name) + 2) * CHARACTER)
        drawn.append(f'<text class="text" x="{start:.0f}" y="{top + LINE * number:.0f}">{escape(line)}</text>')
    first = top + LINE * len(lines) - 6
    for room_left, row, room in box.placed_rooms(place.width):
        x, y = place.left + room_left, first + row * (ROOM_HEIGHT + ROOM_GAP)
        size = f'width="{_room_width(room):.0f}" height="{ROOM_HEIGHT}"'
        drawn.append(f'<rect class="room" x="{x:.0f}" y="{y:.0f}" {size} rx="4"/>')
        drawn.append(f'<text class="label" x="{x + 7:.0f}" y="{y + 14:.0f}">{room}</text>')
    return drawn


def draw(boxes: Mapping[str, Box], imports: Imports, colors: Mapping[str, str]) -> str:
    """The whole picture as SVG."""
    rows, arrows = plan_rows(without_detours(imports))
    places = place_rows(rows, boxes)
    height = max(place.top + place.height for place in places.values()) + MARGIN
    mono, sans = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace", "system-ui,Segoe UI,Helvetica,Arial,sans-serif"
    style = (
        f".box{{fill:{colors['box']};stroke:{colors['edge']}}}.room{{fill:{colors['room']};stroke:{colors['edge']}}}"
        f".arrow{{fill:none;stroke:{colors['text']};stroke-width:1.4}}.tip{{fill:{colors['text']}}}"
        f".name{{font:600 13px {mono};fill:{colors['name']}}}.label{{font:12px {mono};fill:{colors['text']}}}"
        f".text{{font:12px {sans};fill:{colors['text']}}}"
    )
    tip = '<path class="tip" d="M0 0 8 4 0 8z"/>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
            "<!-- Generated by scripts/house_picture.py: run `make docs`. -->",
            "<title>The packages of lakelog, their rooms and their imports</title>",
            f"<style>{style}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            f'orient="auto">{tip}</marker></defs>',
            *draw_arrows(arrows, places, boxes),
            *(line for name in sorted(boxes) for line in draw_box(boxes[name], places[name])),
            "</svg>\n",
        ]
    )


def pictures() -> dict[Path, str]:
    """Every picture: path → text."""
    graph = grimp.build_graph("lakelog", cache_dir=None)
    graph.remove_module("lakelog.__main__")  # `python -m lakelog`: the command line
    boxes = read_boxes(graph)
    imports = {
        name.rpartition(".")[2]: frozenset(other.rpartition(".")[2] for other in others)
        for name, others in imports_between(graph, "lakelog").items()
    }
    return {ASSETS / f"house-{theme}.svg": draw(boxes, imports, colors) for theme, colors in COLORS.items()}


if __name__ == "__main__":
    write_or_check(pictures())

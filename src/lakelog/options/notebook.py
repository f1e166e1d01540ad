"""Notebook views: values as small HTML tables. The lowest layer, because values of all layers have one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final, TypeVar

_SHOWN: Final = 20
"""Items that a list shows; of a longer one half of them from the start, and half from the end."""


class NotebookView:
    """A value that a notebook shows as a table of its facts."""

    def notebook_facts(self) -> Mapping[str, object]:
        """What a person wants to know of the value, by name; None and empty texts are not shown."""
        return {name.replace("_", " "): value for name, value in vars(self).items()}

    def _repr_html_(self) -> str:
        return rows_html(type(self).__name__, (), _shown(self.notebook_facts()).items())


_View = TypeVar("_View", bound=NotebookView)


class ViewList(list[_View]):
    """A list that prints one item per line, and that a notebook shows as one table."""

    def __repr__(self) -> str:
        first, left_out, last = self._parts()
        lines = [*map(repr, first), *([left_out] if left_out else []), *map(repr, last)]
        return "[{}]".format(",\n ".join(lines))

    def _repr_html_(self) -> str:
        first, left_out, last = self._parts()
        rows = [_shown(item.notebook_facts()) for item in (*first, *last)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[row.get(name, "") for name in names] for row in rows]
        if left_out:
            cells.insert(len(first), [left_out])
        return rows_html(f"{len(self)} × {type(self[0]).__name__}" if self else "empty list", names, cells)

    def _parts(self) -> tuple[list[_View], str, list[_View]]:
        """The first items, a text about those that are not shown, and the last items."""
        half, hidden = _SHOWN // 2, len(self) - _SHOWN
        return (list(self), "", []) if hidden <= 0 else (self[:half], f"… {hidden:,} more …", self[-half:])


class ShownText(str):
    """Text that an interactive session prints with its line ends, not quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def rows_html(title: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table of HTML, escaped; ``title`` and ``head`` may be empty."""
    cells = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>"] if head else []
    cells += [f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows]
    shown_title = f"<b>{escape(title)}</b>" if title else ""
    return f"<div>{shown_title}<table>{''.join(cells)}</table></div>"


def time_text(millis: int) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(" ", "milliseconds")


def _shown(facts: Mapping[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in facts.items() if value is not None and value != ""}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)

"""How the local state of a view computes its rows: statements for DuckDB, made from the query of the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.table.views.definition import ROW_KEY

REMOVED: Final = "removed"
ADDED: Final = "added"
"""The two sides of the changes of a source: rows before, and rows after."""

TOUCHED: Final = "touched"
"""The table of the keys of the view that changes touch."""

KEY_ALIAS: Final = "lakelog_key"
"""Its alias in a query. No column has such a name: DuckDB would take ``v.id`` as a field of a struct ``v``."""

BRANCH: Final = "lakelog_branch"
"""Column of ``query`` beside those of the view: the number of the branch of a UNION ALL."""


SUMS: Final = "sums"
"""The table of the counts and sums of the groups of a view."""

ROW_COUNT: Final = "row_count"
"""Column of ``SUMS``: the number of rows of the group."""


def source_table(at: int) -> str:
    """The table of the rows of a source, by its number."""
    return f"source_{at}"


def changed_table(at: int, side: str) -> str:
    """The table of the removed or added rows of a source, by its number."""
    return f"{side}_{at}"


@dataclass(frozen=True)
class LocalSource:
    """A source in the local state: its name, the columns that the query uses and those of its primary key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Touched:
    """A query for the keys of the view whose rows the changes of one source may change.

    ``side`` says which changes it reads: removed rows beside the other sources as they were, or added rows beside the
    other sources as they are.
    """

    source: int
    side: str
    query: str


@dataclass(frozen=True)
class ByChanges:
    """The statements of a view whose rows follow from the changed rows of its only source.

    ``removed`` and ``added`` return the rows of the view that changed rows make. With ``rows`` they return the groups
    of changed rows, in the columns ``keys``, with their counts and sums in the columns ``sums``, and ``rows`` returns
    the rows of the view from the table ``SUMS``.
    """

    removed: str
    added: str
    rows: str | None = None
    keys: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()


@dataclass(frozen=True)
class LocalPlan:
    """The statements of a view.

    ``query`` returns all rows of the view, None if only Spark can compute them. ``restricted`` returns those whose key
    is in the table ``touched``, whose columns are ``key``; None if changes lead to a new computation of all rows.
    ``columns`` are those of the view without ``ROW_KEY``. ``key`` are the columns that identify a row of the view; with
    ``has_row_key`` their values are in ``ROW_KEY``, which is the primary key of the table, and with ``of_branch`` the
    value of ``BRANCH`` is before them. ``by_changes`` are statements without the rows of the sources, None if the view
    needs these.
    """

    sources: tuple[LocalSource, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    has_row_key: bool
    of_branch: bool
    zone: str
    query: str | None = None
    restricted: str | None = None
    touched: tuple[Touched, ...] = ()
    by_changes: ByChanges | None = None

    @property
    def table_key(self) -> tuple[str, ...]:
        """The primary key of the view's table."""
        return (ROW_KEY,) if self.has_row_key else self.key

    @property
    def table_columns(self) -> tuple[str, ...]:
        """All columns of the view's table."""
        return (*self.columns, ROW_KEY) if self.has_row_key else self.columns

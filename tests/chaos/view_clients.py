"""The processes of a run of materialized views: writers of their tables, runners that refresh them, and checkers.

usage: python -m chaos.view_clients ROLE NAME SETTINGS  (SETTINGS is a JSON file; a line on stdin says: come to an end)

Each keeps a journal of what it did, and what it found wrong.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from chaos.clients import next_number
from chaos.journal import Journal
from lakelog import connect
from lakelog.errors import LakelogError
from lakelog.lake import Lake
from lakelog.lake.table import Table
from lakelog.table.model.waiting_epochs import waiting_epochs, waiting_position
from lakelog.table.views.definition import ROW_KEY, ViewDefinition
from lakelog.table.views.position import ViewPosition
from view_world import ViewWorld, all_rows, answer, folded, sorted_rows

WROTE, REFRESHED, CHECKED, SKIPPED, WRONG, FAILED = "wrote", "refreshed", "checked", "skipped", "wrong", "failed"
_COMMITTED: Final = {"log.consistency": "transactional"}
_BEHIND: Final = 3
"""So many snapshots at most are made of one seal."""
Rows = list[tuple[Any, ...]]


class Writer(ViewWorld):
    """Changes the tables of a world that exists."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.lake = connect(str(self.place))


class Client:
    """One process: its lake, its dice, its journal, and whether it was told to end."""

    def __init__(self, given: dict[str, Any], name: str) -> None:
        directory = Path(given["directory"])
        self.given, self.warehouse = given, given["warehouse"]
        self.views: dict[str, str] = given["views"]
        self.journal = Journal(directory / "journals", name)
        self.seed = next_number(directory / "numbers") * 1_000 + given["seed"]
        self.told = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), self.told.set()), daemon=True).start()


def write(client: Client) -> None:
    """Changes tables: upserts, deletes, overwrites, rollbacks, compactions."""
    world = Writer(Path(client.warehouse), client.seed)
    while not client.told.is_set():
        try:
            world.act()
            client.journal.say(WROTE, world.steps[-1])
        except LakelogError as failure:
            client.journal.say(FAILED, world.steps[-1], f"{type(failure).__name__}: {failure}"[:500])
        client.told.wait(client.given["pause_s"] * 2 * world.random.random())


def refresh(client: Client) -> None:
    """Keeps the views fresh as ``lakelog view run`` does."""
    lake = connect(client.warehouse)
    for done in lake.views.run(stop=client.told):
        client.journal.say(REFRESHED, done.view, [done.rows, done.is_whole])


def check(client: Client) -> None:
    """Compares snapshots and logs of views with their queries, again and again."""
    lake, dice = connect(client.warehouse), random.Random(client.seed)
    while not client.told.is_set():
        name = dice.choice(list(client.views))
        compare = dice.choice((compare_snapshot, compare_log))
        try:
            found = compare(lake, name, client.views[name])
        except LakelogError as failure:  # a snapshot was rolled back or has expired between two reads
            client.journal.say(SKIPPED, name, f"{type(failure).__name__}: {failure}"[:500])
            continue
        if found is None:
            client.journal.say(SKIPPED, name)
        else:
            client.journal.say(WRONG if found else CHECKED, f"{name} {compare.__name__}", found)
        client.told.wait(0.05)


def compare_snapshot(lake: Lake, name: str, query: str) -> str | None:
    """How the newest snapshot of a view differs from its query over the sources at its position; None: they are gone.

    A snapshot and the position in its state are one, so this holds beside any number of refreshes.
    """
    table = lake.table(f"db.{name}")
    number, text = _sealed(table, name)
    columns = columns_of(table)
    rows = sorted_rows([{c: row[c] for c in columns} for row in all_rows(table, number)])
    return _difference(lake, query, text, rows, f"snapshot {number} of {name}")


def compare_log(lake: Lake, name: str, query: str) -> str | None:
    """How the rows of its log that are in a snapshot differ from those of the files; None: there was a refresh.

    They are those of the newest snapshot, or of the one before: a process may be killed between snapshot and log.
    """
    table = lake.table(f"db.{name}")
    number, columns = _sealed(table, name)[0], columns_of(table)
    rows = sorted_rows(folded(table, columns, _COMMITTED))
    ids = (
        [0] if not number else [i for i in table.logical.store.snapshots.chain_ids() if number - _BEHIND <= i <= number]
    )
    files = [sorted_rows([{c: row[c] for c in columns} for row in all_rows(table, i)]) for i in ids]
    if rows in files:
        return ""
    if _sealed(table, name)[0] != number:
        return None
    return f"the log of {name}: {_only(rows, files[-1])} and not {_only(files[-1], rows)}, snapshot {number}: {query}"


def _sealed(table: Table, name: str) -> tuple[int, str]:
    """The newest snapshot of a view, and the position that it has; 0 for a view that never had a row."""
    writer = _writer(table, name)
    known = waiting_epochs(table.logical, writer)
    if known.snapshot is None:
        return 0, waiting_position(table.logical, writer)
    return known.snapshot.id, known.state.writers[writer].position


def columns_of(table: Table) -> list[str]:
    """The columns of a view's query."""
    return [c for c in table.schema.names if c != ROW_KEY]


def position_of(table: Table, name: str) -> ViewPosition | None:
    """The newest position of a view; None if it starts over."""
    text = waiting_position(table.logical, _writer(table, name))
    return ViewPosition.parse(text) if text.startswith("{") else None


def is_there(lake: Lake, position: ViewPosition) -> bool:
    """Whether each snapshot of a position still exists."""
    return all(at.find(lake.table(name).logical)[0] for name, at in position.sources.items())


def _difference(lake: Lake, query: str, text: str, rows: Rows, what: str) -> str | None:
    position = ViewPosition.parse(text) if text.startswith("{") else None
    if position is None or not is_there(lake, position):
        return None
    expected = answer(lake, query, {name: at.snapshot for name, at in position.sources.items()})
    if rows == expected:
        return ""
    if not is_there(lake, position):  # rolled back meanwhile: another snapshot has its number
        return None
    return f"{what} at {text}: {_only(rows, expected)} and not {_only(expected, rows)}: {query}"


def _only(some: Rows, others: Sequence[tuple[Any, ...]]) -> Rows:
    left = list(others)
    return [row for row in some if row not in left or left.remove(row)]  # type: ignore[func-returns-value]


def _writer(table: Table, name: str) -> str:
    return ViewDefinition.need(table.logical.schema, name).writer


ROLES: dict[str, Callable[[Client], None]] = {"writer": write, "runner": refresh, "checker": check}


if __name__ == "__main__":
    ROLES[sys.argv[1]](Client(json.loads(Path(sys.argv[3]).read_text(encoding="utf-8")), sys.argv[2]))

"""Clients that change the table during other work: ALTER, RENAME, DROP and CREATE of the same name."""

from __future__ import annotations

from collections.abc import Callable

import protocol_calls as calls
from simulated_process import Program
from simulated_table import SimulatedTable, World

_TRIES = 3

Spawn = Callable[..., Program]


class Owner:
    """Starts a change of a table in a separate process, and restarts it after a death. Several run concurrently."""

    def __init__(self, world: World, spawn: Spawn) -> None:
        self.world, self.scheduler, self.dice, self._spawn = world, world.scheduler, world.dice, spawn
        self._names = self._at_work = 0

    def life(self, name: str) -> None:
        """Runs one change until it succeeds."""
        chance = self.dice.random()
        table = self.world.tables[-1]
        if self.dice.random() < 0.5:
            self.scheduler.sleep(0.8 * self.dice.random())
        else:  # beside another change
            self.scheduler.wait_until(lambda: self._at_work > 0, self.scheduler.now + 800)
        if chance < 0.3:
            self._do(name, lambda: self._alter(table))
        elif chance < 0.65:
            self._do(name, lambda: self._rename(table))
        else:
            self._do(name, lambda: self._drop(table))

    def _do(self, name: str, change: Callable[[], None]) -> None:
        """Runs it in a process, with up to three restarts after deaths."""
        self._at_work += 1
        if self._at_work > 1:
            self.scheduler.events["owners at once"] += 1
        try:
            self._try(name, change)
        finally:
            self._at_work -= 1

    def _try(self, name: str, change: Callable[[], None]) -> None:
        done: list[bool] = []

        def body() -> None:
            change()
            done.append(True)

        for number in range(_TRIES):
            at_work = self._spawn(f"{name}.{number}", body)
            self.scheduler.wait_until(lambda: at_work.is_done)  # noqa: B023
            if done:
                return

    def _alter(self, table: SimulatedTable) -> None:
        name = self.world.name_of(table)
        if name is None:
            return
        chance, names = self.dice.random(), set(self.world.open(name).schema.field_names)
        if chance < 0.6 and "w" not in names:
            calls.add_column(self.world.catalog, name)
            self._count("ALTER … ADD COLUMN")
        elif chance < 0.6 and "x" in names:
            calls.swap_columns(self.world.catalog, name)
            self._count("ALTER … RENAME COLUMN, a swap")
        elif chance < 0.6:
            calls.rename_column(self.world.catalog, name, adds=chance < 0.3)
            self._count("ALTER … RENAME COLUMN" + (", and another column takes the name" if chance < 0.3 else ""))
        else:
            calls.set_option(self.world.catalog, name, self.dice.randint(10, 10**6))
            self._count("ALTER … SET")

    def _rename(self, table: SimulatedTable) -> None:
        """RENAME, often with a new table that takes the old name."""
        name = self.world.name_of(table)
        if name == "t":
            self._names += 1
            calls.rename(self.world.catalog, name, f"t{self._names}")
            self._count("RENAME")
        if table is self.world.tables[-1] and self.dice.random() < 0.6:
            self._create()

    def _drop(self, table: SimulatedTable) -> None:
        name = self.world.name_of(table)
        if name is not None:
            calls.drop(self.world.catalog, name)
            self._count("DROP")
        if table is self.world.tables[-1]:
            self._create()

    def _create(self) -> None:
        self.world.create("t")
        self._count("CREATE of a name that was used")

    def _count(self, what: str) -> None:
        self.scheduler.events[what] += 1
        self.scheduler.note(what)

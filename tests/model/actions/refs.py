"""Actions on the history of the table: tags, branches, rollbacks."""

from __future__ import annotations

import random
from dataclasses import dataclass

from model.action import Action, NamedRows, drawn_rows, resolved, table_code
from model.actions.changes import given_up
from model.tables import Column, may_hide
from model.world import NotPossible, State, World

_GONE = "has expired|does not exist|no snapshot"


def _restore(world: World, state: State) -> None:
    """Gives a table the rows of an earlier state."""
    if may_hide(world.table) and not world.table.drops_files and world.options.get("write-only") == "true":
        raise NotPossible("the difference is an epoch (RFC 23), which waits for a compaction")
    world.rows, world.seen = state.rows, state.seen


@dataclass(frozen=True)
class Tag(Action):
    """A name for the state after an earlier step, or for the newest one."""

    name: str
    mark: int | None
    how: str
    covers = (
        "Table.create_tag",
        "procedure:create_tag",
        "statement:ALTER TABLE TAG",
        "procedure:replace_tag",
        "Table.tags",
    )
    may_refuse = _GONE + "|exists"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        name = rng.choice(["one", "two"])
        if not world.marks or name in world.tags:
            return None
        return cls(name, rng.choice([None, rng.choice(list(world.marks))]), rng.choice(["api", "call", "sql"]))

    @property
    def code(self) -> str:
        number = "t.latest_snapshot().id" if self.mark is None else f"s{self.mark}"
        if self.how == "api":
            return f"t.create_tag({self.name!r}, {number})"
        if self.how == "call":
            return (
                f"lake.sql(f\"call sys.create_tag(table => 'db.t', tag => '{self.name}', snapshot => {{{number}}})\")"
            )
        return f'lake.sql(f"alter table db.t create tag {self.name} as of version {{{number}}}")'

    def apply(self, world: World) -> None:
        if self.mark is not None and self.mark not in world.marks or world.newest is None or self.name in world.tags:
            raise NotPossible("no such state")
        state = world.newest if self.mark is None else world.marks[self.mark]
        assert state is not None
        world.tags[self.name] = state


@dataclass(frozen=True)
class DropTag(Action):
    """A tag goes, or has another name."""

    name: str
    how: str
    covers = ("Table.delete_tag", "procedure:delete_tag", "procedure:rename_tag", "statement:ALTER TABLE TAG")
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(list(world.tags)), rng.choice(["api", "call", "rename"])) if world.tags else None

    @property
    def code(self) -> str:
        if self.how == "api":
            return f"t.delete_tag({self.name!r})"
        if self.how == "call":
            return f"lake.sql(\"call sys.delete_tag(table => 'db.t', tag => '{self.name}')\")"
        return f"lake.sql(\"call sys.rename_tag(table => 'db.t', tag => '{self.name}', target_tag => '{self.name}x')\")"

    def apply(self, world: World) -> None:
        if self.name not in world.tags:
            raise NotPossible("no such tag")
        rows = world.tags.pop(self.name)
        if self.how == "rename":
            world.tags[self.name + "x"] = rows


@dataclass(frozen=True)
class Rollback(Action):
    """The table is again what it was after an earlier step."""

    mark: int
    tag: str | None
    how: str
    covers = (
        *("Table.rollback_to", "procedure:rollback", "procedure:rollback_to", "statement:RESTORE"),
        "procedure:rollback_to_timestamp",
    )
    forgets = True
    may_refuse = _GONE + "|cannot be rolled back"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.marks:
            return None
        tag = rng.choice(list(world.tags)) if world.tags and rng.random() < 0.3 else None
        return cls(rng.choice(list(world.marks)), tag, rng.choice(["api", "call", "restore"]))

    @property
    def code(self) -> str:
        if self.tag is not None:
            return {
                "api": f"t.rollback_to(tag={self.tag!r})",
                "call": f"lake.sql(\"call sys.rollback(table => 'db.t', version => '{self.tag}')\")",
                "restore": f"lake.sql(\"call sys.rollback_to(table => 'db.t', tag => '{self.tag}')\")",
            }[self.how]
        return {
            "api": f"t.rollback_to(snapshot_id=s{self.mark})",
            "call": f"lake.sql(f\"call sys.rollback(table => 'db.t', version => '{{s{self.mark}}}')\")",
            "restore": f'lake.sql(f"restore table db.t to version as of {{s{self.mark}}}")',
        }[self.how]

    def apply(self, world: World) -> None:
        state = world.tags.get(self.tag) if self.tag is not None else world.marks.get(self.mark)
        if state is None:
            raise NotPossible("no such state")
        _restore(world, state)


@dataclass(frozen=True)
class Branch(Action):
    """A branch of the state after an earlier step, with one more write, which the table may take over."""

    name: str
    mark: int
    rows: NamedRows
    columns: tuple[Column, ...]
    takes_over: bool
    covers = (
        *("Table.create_branch", "Table.branch", "Table.branches", "Table.fast_forward", "Table.delete_branch"),
        *(
            "procedure:create_branch",
            "procedure:fast_forward",
            "procedure:delete_branch",
            "statement:ALTER TABLE BRANCH",
        ),
    )
    forgets = True
    writes = True
    weight = 0.5
    may_refuse = _GONE + "|fast|branch"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.marks or len(world.columns) != len(world.table.columns) or world.had_checks:
            return None
        mark = rng.choice(list(world.marks))
        return cls("side", mark, drawn_rows(rng, world, 2), world.columns, rng.random() < 0.4)

    @property
    def code(self) -> str:
        last = f"t.fast_forward({self.name!r})" if self.takes_over else "pass"
        made = table_code(self.columns, self.rows)
        return (
            f"t.create_branch({self.name!r}, snapshot_id=s{self.mark})\n"
            f"try:\n    with t.branch({self.name!r}).writer() as w:\n        w.write({made})\n"
            f"    {last}\nfinally:\n    t.delete_branch({self.name!r})"
        )

    def apply(self, world: World) -> None:
        if self.mark not in world.marks or world.had_checks:
            raise NotPossible("no such state, or the branch has the constraints of then")
        if self.takes_over:
            _restore(world, world.marks[self.mark])
            for values in resolved(world, self.rows):
                world.put(values)


@dataclass(frozen=True)
class Backup(Action):
    """A backup of the newest state, restored as a new table, or into the table after one more write."""

    rows: NamedRows
    columns: tuple[Column, ...]
    in_place: bool
    covers = ("Lake.backup", "Lake.restore", "Lake.backup_points")
    forgets = True
    weight = 0.5
    may_refuse = _GONE + "|cannot be rolled back|in its log that no file"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if world.newest is None or len(world.columns) != len(world.table.columns):
            return None
        return cls(drawn_rows(rng, world, 2), world.columns, rng.random() < 0.5)

    @property
    def code(self) -> str:
        made = table_code(self.columns, self.rows)
        change = f"with t.writer() as w:\n    w.write({made})\n"
        to = "'db.t', in_place=True" if self.in_place else "'db.restored'"
        compare = (
            ""
            if self.in_place
            else (
                "\ntry: assert rows(lake.table('db.restored').scan()) == rows(t.scan())"
                "\nfinally: lake.drop_table('db.restored')"
            )
        )
        return (
            "backup = tempfile.mkdtemp()\nlake.backup('db.t', backup)\n"
            f"{change if self.in_place else ''}"
            f"lake.restore(backup, {to}, timestamp=lake.backup_points(backup, check=True)[-1].time_ms){compare}"
        )

    def apply(self, world: World) -> None:
        if world.newest is None:
            raise NotPossible("no such state")
        if self.in_place:
            given_up(world, self.rows)
            _restore(world, State(world.rows, world.seen, world.columns))


@dataclass(frozen=True)
class Replicate(Action):
    """A replica of the newest state, which ends as a table of its own."""

    promotes: bool
    covers = ("Lake.replicate", "Lake.promote")
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.random() < 0.3)

    @property
    def code(self) -> str:
        same = "assert rows(second.table('db.t').scan()) == rows(t.scan())"
        promotion = f"\nsecond.promote('db.t')\n{same}\nsecond.drop_table('db.t')" if self.promotes else ""
        return (
            "list(lake.replicate('db.t', f'{place}/second', stop='latest'))\n"
            f"second = lakelog.connect(f'{{place}}/second')\n{same}{promotion}"
        )

    def apply(self, world: World) -> None:
        """Nothing changes."""

"""Actions of maintenance: they change no row."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from model.action import Action
from model.world import NotPossible, World

OPTIMIZE = "optimize(t)"


@dataclass(frozen=True)
class Maintain(Action):
    """One run of maintenance by its name in ``WAYS``."""

    way: str
    covers = (
        *("Table.compact", "statement:OPTIMIZE", "statement:CALL", "procedure:compact", "procedure:compact_manifest"),
        *("Table.compact_manifests", "Table.seal", "Table.analyze", "statement:ANALYZE TABLE", "Lake.run"),
        *("Table.follow", "Table.replay_rejected", "procedure:replay_rejected", "statement:REFRESH TABLE"),
        *("Table.remove_orphan_files", "procedure:remove_orphan_files", "procedure:clear_consumers"),
        *("Table.expire_partitions", "procedure:expire_tags", "statement:ALTER TABLE COMPACT"),
    )
    weight = 3.0
    may_refuse = "no snapshot|has no log|without a log|partition.expiration-time|nothing to"

    WAYS: ClassVar[dict[str, str]] = {
        "compact": "t.compact()",
        "compact some": "t.compact(full=False)",
        "optimize statement": "lake.sql('optimize db.t')",
        "alter compact": "lake.sql('alter table db.t compact')",
        "call compact": "lake.sql(\"call sys.compact(table => 'db.t')\")",
        "manifests": "t.compact_manifests()",
        "call manifests": "lake.sql(\"call sys.compact_manifest(table => 'db.t')\")",
        "seal": "t.seal()",
        "analyze": "t.analyze()",
        "analyze statement": "lake.run('analyze table db.t compute statistics')",
        "orphans": "t.remove_orphan_files()",
        "call orphans": "lake.sql(\"call sys.remove_orphan_files(table => 'db.t')\")",
        "expired tags": "lake.sql(\"call sys.expire_tags(table => 'db.t')\")",
        "replay": "t.replay_rejected()",
        "call replay": "lake.sql(\"call sys.replay_rejected(table => 'db.t')\")",
        "refresh": "lake.sql('refresh table db.t')",
    }

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(["compact", "compact", "compact some", *cls.WAYS]))

    @property
    def code(self) -> str:
        return self.WAYS[self.way]

    @property
    def settles(self) -> bool | None:  # type: ignore[override]
        return True if self.way == "seal" else None

    def apply(self, world: World) -> None:
        if "replay" in self.way and world.rejects:
            raise NotPossible("rejected rows come back: tests/unit/table/test_constraints.py")

    @property
    def merges(self) -> bool:
        return "compact" in self.way or "optimize" in self.way


@dataclass(frozen=True)
class Optimize(Action):
    """All that the optimizer may do for the table."""

    covers = (
        "optimizer:healing",
        "optimizer:compaction",
        "optimizer:full-compaction",
        "optimizer:expiry",
        "optimizer:partition-expiry",
        "optimizer:tag-expiry",
        "optimizer:orphan-cleaning",
    )
    merges = True
    forgets = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls()

    @property
    def code(self) -> str:
        return OPTIMIZE


@dataclass(frozen=True)
class Expire(Action):
    """Old snapshots go."""

    way: str
    covers = ("Table.expire_snapshots", "procedure:expire_snapshots", "statement:VACUUM")
    forgets = True
    may_refuse = "no snapshot"

    WAYS: ClassVar[dict[str, str]] = {
        "api": "t.expire_snapshots(retain_max=2, retain_min=1)",
        "call": "lake.sql(\"call sys.expire_snapshots(table => 'db.t', retain_max => 3)\")",
        "vacuum": "lake.sql('vacuum db.t')",
    }

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(list(cls.WAYS)))

    @property
    def code(self) -> str:
        return self.WAYS[self.way]


@dataclass(frozen=True)
class Rescale(Action):
    """Another number of buckets, also of the rows that are there."""

    buckets: int
    way: str
    covers = ("Table.rescale", "procedure:rescale")
    merges = True
    may_refuse = "dynamic|bucket|whole row"
    weight = 0.8

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if world.options.get("bucket", "-1") == "-1":
            return None
        return cls(rng.choice([1, 2, 3, 4]), rng.choice(["api", "call"]))

    @property
    def code(self) -> str:
        run = "t.rescale()" if self.way == "api" else "lake.sql(\"call sys.rescale(table => 'db.t')\")"
        alter = f"alter table db.t set tblproperties ('bucket' = '{self.buckets}')"
        return f'lake.sql("{alter}"); t = lake.table("db.t"); {run}'

    def apply(self, world: World) -> None:
        world.options["bucket"] = str(self.buckets)

    def outcomes(self, world: World) -> list[World]:
        (after,) = super().outcomes(world)
        return [after, after] if world.hides_new else [after]  # a partition that has this number stays as it is

"""Any mix of writes, overwrites, compactions, expiry, tags, rollbacks, schema changes and restarts, with a fault at any
storage call: the table is a plain dict, every snapshot and tag keeps its rows, and cleaning leaves no file too many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from table_world import ROOT, Row, State, World, newest_schema, read, state_after

from depth import DEPTH
from faults import KINDS, Died, FaultPlan
from lakelog.errors import LakelogError
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.store import FileStore
from lakelog.paimon.schema.changes import AddColumn, DropColumn, RenameColumn, SchemaChange, apply_changes
from lakelog.paimon.types.types import parse_type

PARTITIONS = ("a", "b", "c")
FAULTS = st.none() | st.tuples(st.integers(1, 40), st.sampled_from(KINDS))
PART = st.sampled_from(PARTITIONS)
NUMBER = st.integers(0, 9)
ROWS = st.lists(
    st.tuples(PART, NUMBER, st.none() | st.text(st.characters(codec="utf-8"), max_size=4)), min_size=1, max_size=8
)
KEYS = st.lists(st.tuples(PART, NUMBER), max_size=3)
Fault = tuple[int, str] | None


class TableMachine(RuleBasedStateMachine):
    """A table, its model, and what may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World.make(
            num_sorted_run__compaction_trigger="3",
            manifest__merge_min_count="3",
            target_file_size="1 kb",
            changelog_producer="input",
            changelog__num_retained__min="3",
        )
        self.tags: dict[str, tuple[int, State]] = {}
        self.identifier = 0
        self.columns = 0

    def do(self, fault: Fault, act: Callable[[FileStore], object], after: State) -> None:
        """Tries a job under a fault, and again without."""
        plan = FaultPlan({} if fault is None else {fault[0]: fault[1]})
        before = dict(self.world.now)
        with contextlib.suppress(Died, LakelogError):
            act(self.world.broken(plan))
        plan.arrive()
        assert read(self.world.store) in (before, after), "a job that failed is there by half"
        act(self.world.store)
        self.world.record(after)

    @rule(rows=ROWS, deleted=KEYS, fault=FAULTS)
    def upsert(self, rows: Sequence[Row], deleted: Sequence[tuple[str, int]], fault: Fault) -> None:
        self.identifier += 1
        number = self.identifier
        after = state_after(self.world.now, rows, deleted)
        self.do(fault, lambda store: self.world.upsert(store, number, rows, deleted), after)

    @rule(rows=ROWS, others=st.sets(PART), fault=FAULTS)
    def overwrite(self, rows: Sequence[Row], others: set[str], fault: Fault) -> None:
        self.identifier += 1
        number = self.identifier
        gone = {row[0] for row in rows} | others
        kept = {key: value for key, value in self.world.now.items() if key[0] not in gone}
        self.do(fault, lambda store: self.world.overwrite(store, number, rows, gone), state_after(kept, rows))

    @rule(fault=FAULTS)
    def compact(self, fault: Fault) -> None:
        self.do(fault, self.world.compact, self.world.now)

    @rule(keep=st.integers(1, 4), fault=FAULTS)
    def expire(self, keep: int, fault: Fault) -> None:
        retention = Retention(1, keep, timedelta(0), 50)
        self.do(fault, lambda store: store.expire_snapshots(retention), self.world.now)

    @rule(name=st.sampled_from(["t1", "t2"]), fault=FAULTS)
    def tag(self, name: str, fault: Fault) -> None:
        if name in self.tags or self.world.store.latest_snapshot() is None:
            return

        def create(store: FileStore) -> None:
            if name not in {t.name for t in store.tags.list()}:
                store.tags.create(name)

        self.do(fault, create, self.world.now)
        self.tags[name] = (self.world.store.tags.get(name).snapshot.id, dict(self.world.now))

    @rule(name=st.sampled_from(["t1", "t2"]), fault=FAULTS)
    def delete_tag(self, name: str, fault: Fault) -> None:
        def delete(store: FileStore) -> None:
            if name in {t.name for t in store.tags.list()}:
                store.tags.delete(name)

        self.do(fault, delete, self.world.now)
        self.tags.pop(name, None)

    @rule(back=st.integers(0, 3), fault=FAULTS)
    def roll_back(self, back: int, fault: Fault) -> None:
        ids = sorted(self.world.store.snapshots.ids())
        if len(ids) <= back:
            return
        target = ids[-1 - back]
        state = self.world.states[target]
        self.do(fault, lambda store: store.restore(store.snapshot(target)), state)

    @rule(kind=st.sampled_from(["add", "drop", "rename"]))
    def alter(self, kind: str) -> None:
        schema = newest_schema(self.world.store.io)
        added = [f.name for f in schema.fields if f.id > 2]
        change: SchemaChange
        if kind == "drop" and added:
            change = DropColumn((added[0],))
        elif kind == "rename":
            value = next(f.name for f in schema.fields if f.id == 2)
            change = RenameColumn((value,), "w" if value == "v" else "v")
        else:
            self.columns += 1
            change = AddColumn((f"c{self.columns}",), parse_type("BIGINT"))
        new = apply_changes(schema, [change], True, 0)
        self.world.store.io.create(f"{ROOT}/schema/schema-{new.id}", new.to_json())
        self.world.store = replace(self.world.store, schema=new)

    @rule(fault=FAULTS)
    def clean(self, fault: Fault) -> None:
        self.do(fault, lambda store: store.remove_orphans(0), self.world.now)
        assert self.world.leaked() == []

    @invariant()
    def newest_is_right(self) -> None:
        assert read(self.world.store) == self.world.now
        assert self.world.missing() == []

    def teardown(self) -> None:
        self.world.check()
        for name, (_, state) in self.tags.items():
            assert read(self.world.store, self.world.store.tags.get(name).snapshot) == state
        self.world.store.remove_orphans(0)
        assert self.world.leaked() == []
        assert self.world.missing() == []


TestTable = TableMachine.TestCase
TestTable.settings = settings(
    max_examples=DEPTH.cases(25), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)

"""Changes of a schema against naive models: of the ids that columns have, and of what rows of all times say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import DEPTH
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import InvalidSchema
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.changes import (
    FIRST,
    LAST,
    AddColumn,
    ChangePosition,
    ChangeType,
    ColumnPosition,
    DropColumn,
    Position,
    RenameColumn,
    SchemaChange,
    apply_changes,
)
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import BIGINT, INT, ArrayType, DataField, DataType, RowType, nested_fields
from lakelog.table.alter import alter_table
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.table_writer import TableWriter

NAMES = st.sampled_from(["id", "a", "b", "c", "d"])
TYPES: st.SearchStrategy[DataType] = st.sampled_from(
    [INT, ArrayType(INT), RowType((DataField(-1, "x", INT), DataField(-1, "y", RowType((DataField(-1, "z", INT),)))))]
)
POSITIONS = st.sampled_from([FIRST, LAST]) | st.builds(
    Position, st.sampled_from([ColumnPosition.BEFORE, ColumnPosition.AFTER]), NAMES
)
CHANGES: st.SearchStrategy[SchemaChange] = st.one_of(
    st.builds(AddColumn, st.tuples(NAMES), TYPES, st.none(), st.none() | POSITIONS),
    st.builds(DropColumn, st.tuples(NAMES)),
    st.builds(RenameColumn, st.tuples(NAMES), NAMES),
    st.builds(ChangePosition, st.tuples(NAMES), POSITIONS),
)


def placed(columns: list[str], name: str, position: Position) -> list[str] | None:
    """The columns with a new one at its place; None when the place is unknown."""
    if position.other is None:
        return [name, *columns] if position.place is ColumnPosition.FIRST else [*columns, name]
    if position.other not in columns:
        return None
    at = columns.index(position.other) + (position.place is ColumnPosition.AFTER)
    return [*columns[:at], name, *columns[at:]]


def expected(columns: dict[str, int], change: Any, new_id: int) -> dict[str, int] | None:
    """Name → id in table order after a change; None when the format does not allow it."""
    name, order = change.path[0], list(columns)
    if isinstance(change, AddColumn):
        moved = None if name in columns else placed(order, name, change.position or LAST)
        return None if moved is None else {n: columns.get(n, new_id) for n in moved}
    if name not in columns or (isinstance(change, DropColumn) and name == "id"):
        return None
    if isinstance(change, DropColumn):
        return {n: i for n, i in columns.items() if n != name}
    if isinstance(change, RenameColumn):
        renamed = {change.new_name if n == name else n: i for n, i in columns.items()}
        return None if change.new_name in columns else renamed
    moved = placed([n for n in order if n != name], name, change.position)
    return None if moved is None else {n: columns[n] for n in moved}


def all_ids(schema: TableSchema) -> list[int]:
    return [f.id for column in schema.fields for f in (column, *nested_fields(column.type))]


@given(changes=st.lists(CHANGES, max_size=25))
def test_a_column_keeps_its_id_and_no_id_is_used_twice(changes: list[SchemaChange]) -> None:
    schema = new_schema([("id", INT, None), ("a", INT, None)], ["id"], [], {"bucket": "1"})
    key = 0
    columns = {f.name: f.id for f in schema.fields}
    ever = set(all_ids(schema))
    for number, change in enumerate(changes):
        wanted = None
        if not (isinstance(change, DropColumn) and columns.get(change.path[0]) == key):
            wanted = expected(columns, change, schema.highest_field_id + 1)
        try:
            made = apply_changes(schema, [change], has_snapshots=True, time_millis=number)
        except InvalidSchema:
            assert wanted is None, f"{change} of {columns} was refused"
            continue
        assert list({f.name: f.id for f in made.fields}.items()) == list((wanted or {}).items())
        ids = all_ids(made)
        assert len(ids) == len(set(ids))
        assert max(ids) <= made.highest_field_id
        assert made.highest_field_id >= schema.highest_field_id
        assert not (set(ids) - set(all_ids(schema))) & ever, "an id came back"
        ever |= set(ids)
        columns, schema = wanted or {}, made


@dataclass
class World:
    """A table in memory and what it should hold: key → value by the id of the column."""

    keyed: bool
    rows: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog = FilesystemCatalog("/warehouse", MemoryFileIO(new_uuid()))
        self.name = Identifier("default", "t")
        columns = [("id", INT, None), ("a", INT, None)]
        options = {"bucket": "1"} if self.keyed else {}
        made = self.catalog.create_table(self.name, new_schema(columns, ["id"] if self.keyed else [], [], options))
        self.handles = [DynamicTable(made)]

    def change(self, change: SchemaChange) -> None:
        try:
            self.handles.append(DynamicTable(alter_table(self.catalog, self.name, [change])))
        except InvalidSchema:
            return

    def write(self, handle: int, keys: list[int], value: int) -> None:
        table = self.handles[handle % len(self.handles)]
        fields = table.schema.fields
        columns = {f.name: keys if f.id == 0 else [value] * len(keys) for f in fields}
        with TableWriter(table) as writer:
            writer.write(pa.table({n: pa.array(v, pa.int32()) for n, v in columns.items()}))
        for key in keys:
            if self.keyed:
                self.rows = [row for row in self.rows if row[0] != key]
            self.rows.append({f.id: key if f.id == 0 else value for f in fields})

    def check(self) -> None:
        """Every handle reads the columns that the table still has; compaction forgets dropped ones."""
        newest = {f.id for f in self.handles[-1].schema.fields}
        for table in self.handles[-2:]:
            kept = [f for f in table.schema.fields if f.id in newest]
            wanted = [{f.name: row.get(f.id) for f in kept} for row in self.rows]
            got = Scan(table).select([f.name for f in kept]).to_arrow().to_pylist()
            assert sorted(map(repr, got)) == sorted(map(repr, wanted))


VALUES = st.integers(-5, 5)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 9), st.lists(VALUES, min_size=1, max_size=3, unique=True), VALUES),
    st.tuples(st.just("compact"), st.integers(0, 9)),
    st.tuples(
        st.just("change"),
        st.one_of(
            st.builds(AddColumn, st.tuples(NAMES), st.sampled_from([INT, BIGINT]), st.none(), st.none() | POSITIONS),
            st.builds(DropColumn, st.tuples(st.sampled_from(["a", "b", "c", "d"]))),
            st.builds(RenameColumn, st.tuples(st.sampled_from(["a", "b", "c", "d"])), NAMES),
            st.builds(ChangePosition, st.tuples(NAMES), POSITIONS),
            st.builds(ChangeType, st.tuples(st.sampled_from(["a", "b", "c", "d"])), st.just(BIGINT)),
        ),
    ),
)


@settings(max_examples=DEPTH.cases(30))
@given(keyed=st.booleans(), steps=st.lists(STEPS, max_size=10))
def test_rows_written_before_and_after_changes_are_read_right_by_every_handle(keyed: bool, steps: list[Any]) -> None:
    world = World(keyed)
    for what, *arguments in steps:
        if what == "write":
            world.write(*arguments)
        elif what == "compact":
            compact_table(world.handles[arguments[0] % len(world.handles)], full=True)
        else:
            world.change(*arguments)
        world.check()

"""Every merge engine against its plain words, whatever the runs and batches that bring the rows of a key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import DEPTH
from lakelog.errors import InvalidSchema
from lakelog.merge import ENGINES, merge_engine
from lakelog.merge.runs import fold_rows, merge_runs, sort_run
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import parse_type
from merge_reference import FOLDS, NoResult, Row, Table, plain_table

pytestmark = pytest.mark.usefixtures("new_parts")

AGGREGATED = {"s": "INT", "mx": "INT", "lst": "STRING", "fv": "INT", "lv": "STRING", "x": "INT"}
FUNCTIONS = {"s": "sum", "mx": "max", "lst": "listagg", "fv": "first_value", "lv": "last_value"}
IN_GROUPS = {"s": "INT", "a": "STRING", "g": "INT", "h": "INT", "b": "INT", "p": "STRING"}
GROUPS = ((("g",), ("s", "a")), (("h",), ("b",)))
KEPT = frozenset({"ignore-retract"})


def partial(*flags: str, **fields: Any) -> Table:
    return Table("partial-update", IN_GROUPS, flags=frozenset(flags), **fields)


TABLES = {
    **{engine: plain_table(engine) for engine in FOLDS},
    "deduplicate by fields": Table("deduplicate", {"v": "INT", "w": "INT"}, sequence=("w", "v")),
    "deduplicate by the smallest": Table("deduplicate", {"v": "INT"}, sequence=("v",), flags=frozenset(["descending"])),
    "deduplicate without deletes": Table(
        "deduplicate", {"v": "INT"}, sequence=("v",), flags=frozenset(["ignore-delete"])
    ),
    "first-row without deletes": Table("first-row", {"v": "INT"}, flags=frozenset(["ignore-delete"])),
    "aggregation by functions": Table("aggregation", AGGREGATED, FUNCTIONS),
    "aggregation that keeps": Table("aggregation", AGGREGATED, FUNCTIONS, flags=KEPT),
    "aggregation that removes": Table("aggregation", AGGREGATED, FUNCTIONS, flags=frozenset(["remove"])),
    "aggregation by a field": Table("aggregation", AGGREGATED, FUNCTIONS, flags=KEPT, sequence=("x",)),
    "partial-update without deletes": partial("ignore-delete"),
    "partial-update that removes": partial("remove"),
    "partial-update by a field": partial("remove", sequence=("g",)),
    "groups": partial(groups=GROUPS),
    "groups without deletes": partial("ignore-delete", groups=GROUPS),
    "groups with functions": partial("ignore-retract", groups=GROUPS, functions={"s": "sum", "a": "listagg"}),
    "groups with the first": partial("ignore-retract", groups=GROUPS, functions={"s": "max", "a": "first_value"}),
    "groups with last values": partial(groups=GROUPS, functions={"s": "last_value", "a": "last_non_null_value"}),
    "groups of two fields": partial(groups=((("g", "h"), ("s", "a", "b")),), functions={"s": "sum"}),
    "a group that removes": partial(groups=GROUPS, remove_on=("g",), functions={"s": "sum"}),
    "groups that remove": partial(groups=GROUPS, remove_on=("g", "h"), functions={"s": "sum"}),
}


def schema_of(table: Table) -> TableSchema:
    options = {"sequence.field": ",".join(table.sequence)} if table.sequence else {}
    options |= {"sequence.field.sort-order": "descending"} if "descending" in table.flags else {}
    options |= {"ignore-delete": "true"} if "ignore-delete" in table.flags else {}
    if "remove" in table.flags:
        options[f"{table.engine}.remove-record-on-delete"] = "true"
    if table.remove_on:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(table.remove_on)
    for name, function in table.functions.items():
        options[f"fields.{name}.aggregate-function"] = function
        if "ignore-retract" in table.flags:
            options[f"fields.{name}.ignore-retract"] = "true"
    for fields, updated in table.groups:
        options[f"fields.{','.join(fields)}.sequence-group"] = ",".join(updated)
    columns = {"k": "INT NOT NULL", **table.columns}
    return new_schema([(n, parse_type(t), None) for n, t in columns.items()], ["k"], options=options)


def arrow_rows(table: Table, rows: list[tuple[int, Row]]) -> pa.Table:
    columns = {"k": pa.array([key for key, _ in rows], pa.int32())}
    for name, kind in table.columns.items():
        columns[name] = pa.array([row.values[name] for _, row in rows], arrow_type(parse_type(kind)))
    columns["_SEQUENCE_NUMBER"] = pa.array([row.number for _, row in rows], pa.int64())
    columns["_VALUE_KIND"] = pa.array([row.kind for _, row in rows], pa.int8())
    return pa.table(columns)


@st.composite
def keyed_rows(draw: st.DrawFn, table: Table) -> list[tuple[int, Row]]:
    kinds = st.sampled_from([0, 0, 0, 2, draw(st.sampled_from([0, 1, 3])), 3])
    values = {
        name: st.none() | (st.sampled_from(["", "a", "b"]) if kind == "STRING" else st.integers(0, 3))
        for name, kind in table.columns.items()
    }
    drawn = draw(st.lists(st.tuples(st.integers(0, 2), kinds, st.fixed_dictionaries(values)), min_size=1, max_size=14))
    if draw(st.booleans()):
        drawn = [(key, kind if kind != 3 and kind != 1 else 0, v) for key, kind, v in drawn]
    numbers = draw(st.permutations(range(len(drawn))))
    return [(key, Row(n, kind, v)) for n, (key, kind, v) in zip(numbers, drawn, strict=True)]


def test_every_registered_engine_has_its_words() -> None:
    assert set(FOLDS) == set(ENGINES)


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=DEPTH.cases(25))
@given(data=st.data())
def test_an_engine_merges_like_its_reference(name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    rows = data.draw(keyed_rows(table))
    engine = merge_engine(table.engine, schema_of(table))
    expected: list[tuple[int, Row]] | None = []
    try:
        for key in sorted({key for key, _ in rows}):
            folded = table.fold([row for k, row in rows if k == key])
            expected += [] if folded is None else [(key, folded)]
    except NoResult:
        expected = None

    whole = arrow_rows(table, rows)
    count = data.draw(st.integers(1, 4))
    runs = []
    for at in range(count):
        part = whole.take(pa.array(range(at, len(rows), count), pa.int64()))
        runs.append(part.sort_by([("k", "ascending"), ("_SEQUENCE_NUMBER", "ascending")]))
    batches = [run.to_batches(max_chunksize=data.draw(st.integers(1, 5))) for run in runs]

    def folded_at_once() -> pa.Table:
        return fold_rows(whole, ["k"], engine)

    def merged() -> pa.Table:
        return pa.Table.from_batches(merge_runs(batches, ["k"], engine), whole.schema)

    def spilled() -> pa.Table:
        return pa.Table.from_batches(
            merge_runs([sort_run(run, ["k"], engine).to_batches() for run in runs], ["k"], engine), whole.schema
        )

    # a delete that may be dropped is dropped sooner or later, so engines that fold twice may keep a lone one
    for way in (folded_at_once, merged, spilled):
        if expected is None:
            with pytest.raises(InvalidSchema):
                way()
        elif way is not spilled or not engine.folds_again:
            assert way().to_pylist() == arrow_rows(table, expected).to_pylist(), way.__name__


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=DEPTH.cases(15))
@given(data=st.data())
def test_a_merge_of_some_columns_gives_what_a_merge_of_all_gives(name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    rows = arrow_rows(table, data.draw(keyed_rows(table)))
    engine = merge_engine(table.engine, schema_of(table))
    wanted = data.draw(st.lists(st.sampled_from(sorted(table.columns)), unique=True))
    needed = [*wanted, *engine.needed_columns(wanted), "k", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    try:
        whole = fold_rows(rows, ["k"], engine)
    except InvalidSchema:  # rows that the engine refuses, perhaps for a column that is not read
        return
    some = fold_rows(rows.select(needed), ["k"], engine)
    assert some.select([*wanted, "k", "_VALUE_KIND"]).equals(whole.select([*wanted, "k", "_VALUE_KIND"]))

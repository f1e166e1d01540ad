"""No reading depends on when a compaction ran, nor on how rows were split into writes: all engines and functions.

Three tables get the same rows. One is compacted in between, partly or fully, at random points; one gets each row by a
write of its own.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_aggregates import CASES, canonical

from depth import DEPTH
from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import EMPTY_ROW, BucketFiles
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type
from merge_reference import FOLDS

pytestmark = pytest.mark.usefixtures("new_parts")

KINDS = (0, 0, 0, 2, 1, 3)
NESTED = ("collect", "merge_map", "nested_update", "listagg")
"""Functions whose result has an order or a limit of its own, which only the order of writing gives."""
COLUMNS = [
    case for case in CASES if case[1] not in ("FLOAT", "DOUBLE") and not (case[0] == "product" and case[1] != "BIGINT")
]
PRODUCERS: dict[str, dict[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors merged on read": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
}
ENGINE_OPTIONS: dict[str, tuple[dict[str, str], ...]] = {
    "deduplicate": ({}, {"ignore-delete": "true"}, {"sequence.field": "q"}),
    "first-row": ({}, {"ignore-delete": "true"}),
    "partial-update": (
        {},
        {"ignore-delete": "true"},
        {"sequence.field": "q"},
        {"partial-update.remove-record-on-delete": "true"},
        {"partial-update.remove-record-on-delete": "true", "sequence.field": "q"},
        {"fields.q.sequence-group": "*"},
        {"fields.q.sequence-group": "*", "partial-update.remove-record-on-sequence-group": "q"},
    ),
    "aggregation": (
        {},
        {"ignore-delete": "true"},
        {"sequence.field": "q"},
        {"sequence.field": "q", "sequence.field.sort-order": "descending"},
        {"aggregation.remove-record-on-delete": "true"},
        {"aggregation.remove-record-on-delete": "true", "sequence.field": "q"},
    ),
}


@st.composite
def tables(draw: st.DrawFn, producer: str) -> tuple[TableSchema, dict[str, Any]]:
    """A schema, and the values and functions of its columns by name."""
    engine = draw(st.sampled_from(sorted(ENGINE_OPTIONS)))
    options = {**draw(st.sampled_from(ENGINE_OPTIONS[engine])), **PRODUCERS[producer]}
    by_age = "sequence.field" in options or "fields.q.sequence-group" in options
    whole = producer not in ("none", "input") and by_age
    columns: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 3))):
        function, kind, values, given_ = draw(st.sampled_from(COLUMNS))
        if by_age and function in NESTED:
            continue
        if whole and (function.startswith("first") or function == "last_non_null_value"):
            continue  # such a table keeps one row of each key (docs/guide/merge-and-changes.md)
        if engine == "partial-update" and "fields.q.sequence-group" not in options:
            if whole:
                continue
            function, given_ = "last_non_null_value", {}
        is_needed = isinstance(kind, str) and draw(st.integers(0, 3)) == 0
        kind = f"{kind} NOT NULL" if is_needed else kind
        columns[f"c{number}"] = (function, kind, values if is_needed else st.none() | values)
        own = {"aggregate-function": function, **given_} if engine in ("aggregation", "partial-update") else {}
        if draw(st.booleans()) and "remove-record-on-delete" not in str(options):
            own["ignore-retract"] = "true"
        options |= {f"fields.c{number}.{key}": value for key, value in own.items() if engine != "deduplicate"}
    if "fields.q.sequence-group" in options:
        options["fields.q.sequence-group"] = ",".join(columns) or "z"
    types = [
        ("k", "INT NOT NULL"),
        ("q", draw(st.sampled_from(["INT", "INT NOT NULL"]))),
        ("z", "INT"),
        *((name, kind) for name, (_, kind, _) in columns.items()),
    ]
    options |= {"merge-engine": engine, "bucket": "1", "num-levels": "4", "num-sorted-run.compaction-trigger": "3"}
    if whole and "fields.q.sequence-group" not in options and engine != "deduplicate":
        options |= {"fields.z.aggregate-function": "max"} if engine == "aggregation" else {}
    schema = new_schema([(name, parse_type(kind), None) for name, kind in types], ["k"], options=options)
    return schema, columns


def new_store(schema: TableSchema) -> FileStore:
    io = MemoryFileIO(new_uuid())
    io.write("/w/db.db/t/schema/schema-0", schema.to_json())
    return FileStore(io, "/w/db.db/t", schema)


def write(store: FileStore, rows: pa.Table, kinds: list[int]) -> None:
    latest = store.latest_snapshot()
    highest = store.max_sequence_numbers(latest, {(EMPTY_ROW, 0)}).get((EMPTY_ROW, 0), -1)
    writer = store.bucket_writer(EMPTY_ROW, 0, highest + 1)
    writer.write(rows, pa.array(kinds, pa.int8()))
    files = BucketFiles(EMPTY_ROW, 0, 1, writer.finish(), changelog_files=writer.changelog_files)
    if files.new_files:
        store.commit(CommitRequest(new_uuid(), 1, "APPEND", (files,)))


def compact(store: FileStore, full: bool) -> None:
    for place in store.buckets_to_compact(full):
        store.compact(*place, full)


def content(store: FileStore, columns: dict[str, Any]) -> list[dict[str, Any]]:
    rows = store.read_table(store.plan()).to_pylist()
    return [
        {name: canonical(value, columns[name][0] if name in columns else "") for name, value in row.items()}
        for row in sorted(rows, key=lambda row: row["k"])
    ]


def test_every_engine_has_its_options() -> None:
    assert set(ENGINE_OPTIONS) == {name for name in FOLDS if name not in ("longest", "last-non-null", "latest")}


@pytest.mark.parametrize("producer", PRODUCERS)
@settings(max_examples=DEPTH.cases(60))
@given(data=st.data())
def test_a_compaction_changes_no_reading(producer: str, data: st.DataObject) -> None:
    schema, columns = data.draw(tables(producer), "table")
    try:
        engine = engine_of(schema)
        engine.check_options()
        plain, compacted, split = new_store(schema), new_store(schema), new_store(schema)
        plain.bucket_writer(EMPTY_ROW, 0)
    except InvalidOption:
        return
    kinds = [kind for kind in KINDS if kind in (0, 2) or engine.retraction_fault(kind) is None]
    small = {"q": st.integers(0, 4), "z": st.integers(0, 2)}
    row = st.fixed_dictionaries(
        {"k": st.integers(0, 1), **small, **{name: values for name, (_, _, values) in columns.items()}}
    )
    target = arrow_schema(schema.fields)
    starts_again = any(function == "product" for function, *_ in columns.values())  # one that does not fit
    shows_all = schema.options["merge-engine"] != "first-row" and producer != "vectors"
    for step in data.draw(
        st.lists(st.sampled_from(["write", "write", "minor", "full"]), min_size=3, max_size=10), "steps"
    ):
        if step == "write":
            told = data.draw(st.lists(st.tuples(st.sampled_from(kinds), row), min_size=1, max_size=4), "rows")
            rows = pa.Table.from_pylist([values for _, values in told], target)
            try:
                for store in (plain, compacted):
                    write(store, rows, [kind for kind, _ in told])
            except InvalidSchema:  # the rows of one write have a sum that does not fit
                continue
            for at, (kind, _) in enumerate(told):
                write(split, rows.slice(at, 1), [kind])
        else:
            compact(compacted, step == "full")
            if shows_all:
                assert content(compacted, columns) == content(plain, columns)
        if shows_all and not starts_again:
            assert content(split, columns) == content(plain, columns)
    for store in (plain, compacted, split):
        compact(store, True)
    assert content(compacted, columns) == content(plain, columns)
    assert starts_again or content(split, columns) == content(plain, columns)

"""Tables of the other merge engines: written, flushed, compacted, read whole and in part."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidSchema
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.paimon.schema.schema import TableSchema

PLACE = (b"\x00" * 12, 0)
GROUPED = (("id", "INT NOT NULL"), ("a", "STRING"), ("version", "INT"), ("b", "STRING"))
VERSIONED = (("id", "INT NOT NULL"), ("version", "INT"), ("name", "STRING"))
TOTALS = (("id", "INT NOT NULL"), ("total", "BIGINT"), ("names", "STRING"))


def with_options(table: Any, **options: str) -> Any:
    """The same table with further options, whose keys have dots."""
    given = {**table.store.schema.options, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    old = table.store.schema
    schema = TableSchema(old.id, old.fields, old.highest_field_id, old.partition_keys, old.primary_keys, given)
    return type(table)(FileStore(table.store.io, table.store.table_path, schema))


def aggregation(make_table: Any, **options: str) -> Any:
    table = make_table(columns=TOTALS, merge_engine="aggregation")
    functions = {"fields__total__aggregate_function": "sum", "fields__names__aggregate_function": "listagg"}
    return with_options(table, **functions, **options)


def values(table: Any, *names: str, **plan: Any) -> list[tuple[Any, ...]]:
    return [tuple(row[n] for n in names) for row in table.read(names, **plan)]


def test_a_full_write_buffer_folds_as_one_that_is_not_full(make_table) -> None:
    rows = [(kind, 1, 1, name) for kind, name in ((0, "a"), (0, "b"), (0, None), (0, "c"))]
    seen = set()
    for limit in ("1 b", "64 mb"):
        table = aggregation(make_table, write_buffer_size=limit)
        writer = table.store.bucket_writer(*PLACE)
        for row in rows:
            data, kinds = table.rows(row)
            writer.write(data, kinds)
        (file,) = writer.finish()
        data = table.store.file_rows(*PLACE, file)
        seen.add((data.column("total")[0].as_py(), data.column("names")[0].as_py()))
    assert seen == {(4, "a,b,c")}


@pytest.mark.parametrize("engine", ["first-row", "aggregation", "partial-update", "deduplicate"])
def test_ignored_deletes_never_reach_a_file(make_table, engine) -> None:
    table = make_table(merge_engine=engine, ignore_delete="true")
    table.insert((0, 1, "a", 1.0), (3, 1, "b", 1.0), (3, 2, "c", 1.0), (1, 1, "a", 1.0))
    table.store.compact(*PLACE, full=True)
    assert values(table, "name") == [("a",)]
    writer = table.store.bucket_writer(*PLACE)
    rows, kinds = table.rows((3, 1, "b", 1.0))
    writer.write(rows, kinds)
    assert writer.finish() == ()


def test_the_row_kind_field_decides_the_kind_of_a_row(make_table) -> None:
    columns = (("id", "INT NOT NULL"), ("op", "STRING"))
    table = with_options(make_table(columns=columns), rowkind__field="op")
    table.insert((0, 1, "+I"), (0, 2, "+I"), (0, 3, "+U"))
    table.insert((0, 2, "-D"))
    assert values(table, "id", "op") == [(1, "+I"), (3, "+U")]
    writer = table.store.bucket_writer(*PLACE)
    for value in (None, "I"):
        with pytest.raises(InvalidSchema, match="'op' = .* in row 0"):
            writer.write(pa.table({"id": pa.array([1], pa.int32()), "op": pa.array([value], pa.string())}))
    writer.close()


def test_a_partial_update_also_reads_unselected_columns_of_a_sequence_group(make_table) -> None:
    table = make_table(columns=GROUPED, merge_engine="partial-update")
    table = with_options(table, fields__version__sequence_group="a")
    table.insert((0, 1, "new", 9, None))
    table.insert((0, 1, "old", 3, "b"))
    assert table.read() == [{"id": 1, "a": "new", "version": 9, "b": "b"}]
    assert values(table, "a") == [("new",)]
    assert values(table, "b") == [("b",)]
    table.store.compact(*PLACE, full=True)
    assert table.read() == [{"id": 1, "a": "new", "version": 9, "b": "b"}]


def test_a_filter_drops_no_row_that_would_have_won(make_table) -> None:
    table = make_table(columns=VERSIONED, sequence_field="version")
    table.insert((0, 1, 9, "winner"))
    table.insert((0, 1, 1, "late"))
    assert table.read(filter=Compare("name", "=", "late")) == []
    assert values(table, "name", filter=Compare("name", "=", "winner")) == [("winner",)]
    totals = aggregation(make_table)
    totals.insert((0, 1, 10, "a"))
    totals.insert((0, 1, 5, "a"))
    assert totals.read(filter=Compare("total", "=", 5)) == []
    assert values(totals, "total", filter=Compare("total", ">", 12)) == [(15,)]

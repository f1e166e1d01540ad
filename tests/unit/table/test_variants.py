"""Tables with VARIANT columns: what is written comes back from files, log and tails; and where they are not allowed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake, Table
from lakelog.errors import InvalidOption, InvalidSchema, LakelogError, UnsupportedFeature
from lakelog.lake.output.plain_rows import plain_rows
from lakelog.lake.output.result import table_html
from lakelog.paimon.types.variant import VARIANT, has_variant
from lakelog.service.terminal.protocol.results import columns_of

TEXTS = ['{"a": 1, "b": [1, 2.50, "x", null, 1e5]}', None, "null", '"text"', "12345678901234567890.123"]
LOGS = [("embedded", "arrow"), ("embedded", "debezium-json"), ("files", "arrow"), ("files", "debezium-json")]


def make(lake: Lake, columns: str = "id int, v variant", key: bool = True, **options: str) -> Table:
    given = {"bucket": "1" if key else "-1"} | options
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    lake.sql(f"create table t ({columns}{', primary key (id)' if key else ''}) with ({listed})")
    return lake.table("t")


def rows_of(ids: Sequence[int], texts: Sequence[str | None]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": lakelog.variant.from_json(texts)})


def write(table: Table, *batches: pa.Table) -> None:
    for batch in batches:
        table.write(batch, missing="null")


def texts_of(rows: pa.Table, column: str = "v") -> dict[int, Any]:
    found = lakelog.variant.to_json(rows.column(column)).to_pylist()
    return {key: text and json.loads(text) for key, text in zip(rows.column("id").to_pylist(), found, strict=True)}


@pytest.mark.parametrize(("system", "form"), LOGS)
def test_rows_come_back_from_the_log_and_from_files(lake: Lake, system: str, form: str) -> None:
    options = {"log-store.enabled": "true", "log-store.type": system, "log-store.data-format": form}
    columns = (
        "id int, v variant, many array<variant>, inside struct<a: variant not null, b: int>, m map<string, variant>"
    )
    table = make(lake, columns, **options)
    values = lakelog.variant.from_json(TEXTS)
    ends = pa.array([0, 2, 2, 3, 5, 5], pa.int32())
    rows = pa.table(
        {
            "id": pa.array(range(5), pa.int32()),
            "v": values,
            "many": pa.ListArray.from_arrays(ends, values),
            "inside": pa.StructArray.from_arrays(
                [values.take(pa.array([0, 2, 2, 3, 4])), pa.array(range(5), pa.int32())],
                fields=[pa.field("a", VARIANT, False), pa.field("b", pa.int32())],
                mask=pa.array([False, True, False, False, True]),
            ),
            "m": pa.MapArray.from_arrays(ends, pa.array(list("abcde")), values),
        }
    )
    write(table, rows)
    view = table.scan().to_arrow().sort_by("id")
    assert view.select(rows.column_names).to_pylist() == rows.to_pylist()
    assert [name for name in view.column_names if has_variant(view.schema.field(name).type)] == rows.column_names[1:]
    tailed = pa.Table.from_batches(table.tail("earliest", "latest"))
    assert tailed.select(rows.column_names).sort_by("id").to_pylist() == rows.to_pylist()
    table.seal()
    table.compact()
    assert table.scan(options={"read.mode": "file"}).to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    write(table, pa.table({"id": pa.array([1], pa.int32())}))
    assert table.scan().to_arrow().sort_by("id").to_pylist()[1] == dict.fromkeys(rows.column_names) | {"id": 1}


def test_the_log_holds_json_texts_that_any_consumer_can_parse(lake: Lake) -> None:
    table = make(lake, **{"log-store.enabled": "true", "log-store.data-format": "debezium-json"})
    write(table, rows_of(range(5), TEXTS))
    values = [value for part in table.log_records() for value in part.column("value").to_pylist() if value]
    found = {row["id"]: row["v"] for row in (json.loads(value)["after"] for value in values)}
    assert found == {0: '{"a":1,"b":[1,2.50,"x",null,100000.0e0]}', 1: None, 2: "null", 3: '"text"', 4: TEXTS[4]}


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row", "aggregation"])
def test_each_merge_engine_keeps_the_value_that_it_should(lake: Lake, engine: str) -> None:
    options = {"merge-engine": engine}
    table = make(lake, "id int, v variant, n int", **options)
    none = pa.array([None, None, 1], pa.int32())
    write(table, rows_of([1, 2, 3], ['{"a": 1}', "1", "null"]).append_column("n", none))
    write(table, rows_of([1, 2, 4], ['{"b": 2}', None, "4"]).append_column("n", none))
    table.compact()
    want: dict[int, Any] = {1: {"b": 2}, 2: 1, 3: None, 4: 4}
    if engine == "first-row":
        want |= {1: {"a": 1}}
    if engine == "deduplicate":
        want |= {2: None}
    assert texts_of(table.scan().to_arrow()) == want


def test_functions_that_compare_or_join_values_are_refused(lake: Lake) -> None:
    for function in ("max", "sum", "listagg", "collect", "merge_map"):
        with pytest.raises(InvalidOption, match=f"'{function}' does not fit column 'v' of type VARIANT"):
            make(lake, **{"merge-engine": "aggregation", "fields.v.aggregate-function": function})


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input"])
def test_a_changelog_tells_a_changed_value_from_the_same_one(lake: Lake, producer: str) -> None:
    same = {} if producer == "input" else {"changelog-producer.row-deduplicate": "true"}
    table = make(lake, **{"changelog-producer": producer} | same)
    write(table, rows_of([1, 2], ['{"a": 1}', "1"]))
    table.compact()
    write(table, rows_of([1, 2], ['{"a": 1}', "2"]))
    table.compact()
    last = [plan.to_arrow() for plan in table.stream_plan(from_snapshot=1)]
    changed = [(row["_row_kind"], row["id"]) for part in last for row in part.to_pylist()]
    again = [("-U", 2), ("+U", 2)] if producer != "input" else [("+I", 1), ("+I", 2)]
    assert sorted(changed[:2]) == [("+I", 1), ("+I", 2)]
    assert changed[2:] == again


def test_a_column_is_added_renamed_and_dropped(lake: Lake) -> None:
    table = make(lake, "id int, name string")
    write(table, pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}))
    lake.sql("alter table t add column v variant")
    lake.sql("alter table t add column inside struct<w: variant not null, n: int>")
    table = lake.table("t")
    write(table, rows_of([2], ['{"x": 1}']))
    lake.sql("alter table t rename column v to doc")
    table = lake.table("t")
    assert texts_of(table.scan().to_arrow(), "doc") == {1: None, 2: {"x": 1}}
    table.compact()
    assert texts_of(table.scan().to_arrow(), "doc") == {1: None, 2: {"x": 1}}
    assert table.scan().to_arrow().column("inside").null_count == 2
    for change in ("doc type string", "name type variant"):
        with pytest.raises(InvalidSchema, match="cannot become"):
            lake.sql(f"alter table t alter column {change}")
    lake.sql("alter table t drop column doc")
    assert lake.table("t").scan(columns=["id"]).to_arrow().num_rows == 2


def test_a_table_is_made_of_rows_with_a_variant(lake: Lake) -> None:
    lake.write(rows_of([1], ['{"a": 1}']), "made", create=True)
    assert lake.table("made").definition.field("v").type.to_json() == "VARIANT"
    assert texts_of(lake.table("made").scan().to_arrow()) == {1: {"a": 1}}


def test_rows_without_the_mark_or_with_the_parts_in_another_order_are_taken(lake: Lake) -> None:
    table = make(lake)
    values = lakelog.variant.from_json(['{"a": 1}', None])
    parts = [values.field("metadata").cast(pa.large_binary()), values.field("value").cast(pa.binary_view())]
    plain = pa.StructArray.from_arrays(parts, names=["metadata", "value"], mask=values.is_null())
    write(table, pa.table({"id": pa.array([1, 2], pa.int32()), "v": plain}))
    assert texts_of(table.scan().to_arrow()) == {1: {"a": 1}, 2: None}


def test_statistics_count_nulls_only_and_no_filter_looks_into_a_value(lake: Lake) -> None:
    table = make(lake, key=False)
    write(table, rows_of(range(5), TEXTS))
    (file,) = lake.table("t$files").scan().to_arrow().to_pylist()
    assert "v=1" in file["null_value_counts"]
    assert "v=null" in file["min_value_stats"]
    assert texts_of(table.scan(filter="v is null").to_arrow()) == {1: None}
    assert len(texts_of(table.scan(filter="v is not null").to_arrow())) == 4
    with pytest.raises(LakelogError, match="column 'v' of type variant"):
        table.scan(filter="v = '1'").to_arrow()
    table.analyze()
    assert table.statistics() is not None


@pytest.mark.parametrize(
    ("create", "error", "words"),
    [
        ("(v variant, primary key (v)) with ('bucket' = '1')", InvalidSchema, "cannot be a key"),
        ("(id int, v variant) partitioned by (v)", InvalidSchema, "cannot be a key"),
        ("(id int, v variant) with ('bucket' = '2', 'bucket-key' = 'v')", InvalidSchema, "cannot be a key"),
        (
            "(id int, v variant, primary key (id)) with ('bucket' = '1', 'sequence.field' = 'v')",
            InvalidOption,
            "'sequence.field' orders rows by column 'v' of type VARIANT",
        ),
        (
            "(id int, v variant, n int, primary key (id)) with ('bucket' = '1', 'merge-engine' = 'partial-update', "
            "'fields.v.sequence-group' = 'n')",
            InvalidOption,
            "'fields.v.sequence-group' orders rows by column 'v' of type VARIANT",
        ),
        ("(id int, v variant) with ('file.format' = 'orc')", UnsupportedFeature, "'file.format' = 'orc'"),
        ("(id int, v array<variant>) with ('file.format' = 'avro')", UnsupportedFeature, "'file.format' = 'avro'"),
        (
            "(id int, v variant, primary key (id)) with ('bucket' = '1', 'file.format.per.level' = '0:avro')",
            UnsupportedFeature,
            "'file.format.per.level' = 'avro'",
        ),
        (
            "(id int, v variant, primary key (id)) with ('bucket' = '1', 'changelog-producer' = 'input', "
            "'changelog-file.format' = 'orc')",
            UnsupportedFeature,
            "'changelog-file.format' = 'orc'",
        ),
        (
            "(id int, v variant) with ('metadata.iceberg.storage' = 'table-location')",
            UnsupportedFeature,
            "column 'v' of type VARIANT",
        ),
        ("(id int, v variant) with ('file-index.bloom-filter.columns' = 'v')", LakelogError, "VARIANT"),
        (
            "(id int, v variant, primary key (id)) with ('bucket' = '1', 'rowkind.field' = 'v')",
            InvalidOption,
            "'rowkind.field' = 'v' must be a column of type STRING",
        ),
        (
            "(id int, v variant, primary key (id)) with ('bucket' = '1', 'record-level.expire-time' = '1 d', "
            "'record-level.time-field' = 'v')",
            InvalidOption,
            "'record-level.time-field' = 'v' must be a column of type INT, BIGINT or TIMESTAMP",
        ),
        ("(id int, v blob)", UnsupportedFeature, "type BLOB"),
        ("(id int, v vector<float, 3>)", UnsupportedFeature, "type VECTOR"),
    ],
)
def test_where_a_variant_is_not_allowed(lake: Lake, create: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        lake.sql(f"create table t {create}")
    assert words in str(caught.value)
    assert not lake.table_exists("t")


def test_a_table_does_not_get_a_format_without_variants(lake: Lake) -> None:
    make(lake)
    with pytest.raises(UnsupportedFeature, match="'file.format' = 'orc'"):
        lake.sql("alter table t set ('file.format' = 'orc')")
    lake.sql("create table plain (id int) with ('file.format' = 'orc')")
    with pytest.raises(UnsupportedFeature, match="'file.format' = 'orc'"):
        lake.sql("alter table plain add column v variant")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array(["{}"]), "lakelog.variant.from_json"),
        (pa.array([{"a": 1}]), "is VARIANT, but the rows have struct"),
        (pa.array([{"value": b"", "metadata": b"\x01\x00\x00"}]), "an empty value"),
        (pa.array([{"value": b"\x00", "metadata": b"\x02\x00\x00"}]), "metadata that begin with b'\\x02'"),
        (
            pa.array(
                [{"value": b"\x00", "metadata": None}], pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
            ),
            "metadata that begin with b''",
        ),
    ],
)
def test_what_is_no_variant_is_refused_before_it_is_written(lake: Lake, column: pa.Array, words: str) -> None:
    table = make(lake)
    with pytest.raises(InvalidSchema) as caught:
        write(table, pa.table({"id": pa.array([1], pa.int32()), "v": column}))
    assert words in str(caught.value)
    assert table.latest_snapshot() is None


def test_views_show_json(lake: Lake) -> None:
    table = make(lake)
    write(table, rows_of([1, 2], ['{"a": [1, "x"]}', None]))
    rows = table.scan().to_arrow().sort_by("id")
    assert list(plain_rows(rows)) == [(1, '{"a":[1,"x"]}'), (2, None)]
    assert "{&quot;a&quot;:[1,&quot;x&quot;]}" in table_html(rows)
    assert [one["type"] for one in columns_of(rows)] == ["int", "variant"]

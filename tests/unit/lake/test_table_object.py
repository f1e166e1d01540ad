"""The table in hand does what people type first: writing, reading, columns, lazy frames and data sets."""

from __future__ import annotations

import datetime as dt
import pickle
import random

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import lakelog
from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedFeature
from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.skipping.arrow_conditions import skipping_part
from lakelog.filestore.skipping.polars_conditions import skipping_part_of_polars
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

UTC = dt.UTC


@pytest.fixture
def keyed(lake: Lake) -> Table:
    return lake.create_table("d.k", {"id": "bigint", "name": "string"}, primary_key="id")


@pytest.fixture
def plain(lake: Lake) -> Table:
    return lake.create_table("d.p", {"id": "bigint", "name": "string"})


def rows(*ids: int, name: str = "a") -> pa.Table:
    return pa.table({"id": ids, "name": [name] * len(ids)})


def test_a_table_writes_rows_of_any_library(keyed: Table, plain: Table) -> None:
    assert keyed.write(pl.DataFrame({"id": [1], "name": ["a"]}))["num_inserted_rows"] == 1
    keyed.write(rows(2).to_pandas())
    keyed.upsert(rows(2, 3, name="b"))
    assert sorted(keyed.to_polars().rows()) == [(1, "a"), (2, "b"), (3, "b")]
    plain.append(rows(1))
    plain.append(rows(1))
    assert plain.count() == 2
    plain.write(rows(9), overwrite=True)
    assert plain.to_arrow().to_pylist() == [{"id": 9, "name": "a"}]


def test_what_a_write_means_is_said_where_it_cannot_be_meant(keyed: Table, plain: Table) -> None:
    with pytest.raises(InvalidRequest, match=r"primary key.*upsert\(rows\)"):
        keyed.append(rows(1))
    with pytest.raises(InvalidRequest, match=r"no primary key.*append\(rows\)"):
        plain.upsert(rows(1))
    with pytest.raises(InvalidSchema, match="name"):
        keyed.write(pa.table({"id": [1]}))
    keyed.write(pa.table({"id": [1]}), missing="null")
    assert keyed.to_arrow().to_pylist() == [{"id": 1, "name": None}]


def test_the_lake_writes_as_the_table_does(lake: Lake, keyed: Table) -> None:
    assert lake.write(rows(1, 2), "d.k") == keyed.write(rows(1, 2))
    with pytest.raises(InvalidRequest, match="system table|cannot be written"):
        lake.write(rows(1), "d.k$snapshots")


def test_a_table_is_read_without_a_scan(keyed: Table) -> None:
    keyed.write(rows(1, 2, 3))
    assert (keyed.count(), keyed.count("id > 1"), keyed.head(2).num_rows) == (3, 2, 2)
    assert keyed.to_arrow().num_rows == keyed.to_polars().height == len(keyed.to_pandas()) == 3
    assert keyed.to_reader().read_all().num_rows == pl.DataFrame(keyed).height == 3


def test_columns_are_changed_by_name(keyed: Table, lake: Lake) -> None:
    keyed.write(rows(1))
    assert keyed.add_column("city", "string", comment="where").add_column("n", pa.int32()) is keyed
    keyed.add_column("at", pl.Datetime("us"))
    keyed.rename_column("city", "town").alter_column("n", "bigint", comment="a number").drop_column("name")
    assert keyed.schema.names == ["id", "town", "n", "at"]
    assert lake.table("d.k").schema == keyed.schema
    assert keyed.to_arrow().to_pylist() == [{"id": 1, "town": None, "n": None, "at": None}]
    with pytest.raises(InvalidRequest, match="unsupported type 'nope'"):
        keyed.add_column("x", "nope")
    with pytest.raises(InvalidSchema, match="tovn"):
        keyed.drop_column("tovn")
    with pytest.raises(InvalidRequest, match="at least one"):
        keyed.alter_column("n")


# lazy frames and data sets

SCHEMA = {
    "id": "bigint", "small": "int", "x": "double", "f": "float", "name": "string", "day": "date",
    "at": "timestamp_ntz", "utc": "timestamp", "yes": "boolean", "price": "decimal(9, 2)",
}  # fmt: skip


@pytest.fixture
def wide(lake: Lake) -> Table:
    table = lake.create_table("d.wide", SCHEMA, primary_key="id", options={"bucket": "4"})
    rng = random.Random(7)
    count = 400

    def some(values: list[object]) -> list[object]:
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in range(count)]

    start = dt.datetime(2024, 1, 1)
    columns = {
        "id": list(range(count)),
        "small": some([*range(-3, 4)]),
        "x": some([-1.5, 0.0, -0.0, 1.1, float("nan"), float("inf"), 3.0]),
        "f": some([float(np.float32(value)) for value in (-1.5, 0.0, 1.1, float("nan"))]),
        "name": some(["", "a", 'a"b', "a and b", "(a)", "b", "ä"]),
        "day": some([dt.date(2024, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
        "at": some([start, start + dt.timedelta(microseconds=1), dt.datetime(1960, 1, 1)]),
        "utc": some([start.replace(tzinfo=UTC), start.replace(tzinfo=UTC) + dt.timedelta(hours=5)]),
        "yes": some([True, False]),
        "price": pl.Series(some(["1.10", "-2.00"])).cast(pl.Decimal(9, 2)),
    }
    table.write(pl.DataFrame(columns).to_arrow().cast(table.schema))
    return table


def drawn(rng: random.Random, depth: int = 2) -> tuple[pl.Expr, ds.Expression]:
    """A condition as both libraries write it."""
    if depth and rng.random() < 0.6:
        (left, left_arrow), (right, right_arrow) = drawn(rng, depth - 1), drawn(rng, depth - 1)
        if rng.random() < 0.7:
            return left & right, left_arrow & right_arrow
        return left | right, left_arrow | right_arrow
    values: dict[str, list[object]] = {
        "id": [5, 250, -1], "small": [-3, 0, 2], "x": [1.1, 0.0, 3.0], "f": [1.1, 0.0],
        "name": ["a", 'a"b', "a and b", "(a)", "ä"], "day": [dt.date(2024, 1, 1)], "at": [dt.datetime(2024, 1, 1)],
        "utc": [dt.datetime(2024, 1, 1, tzinfo=UTC)],
    }  # fmt: skip
    name = rng.choice(list(values))
    value, column, field = rng.choice(values[name]), pl.col(name), ds.field(name)
    kind = rng.randrange(9)
    if kind == 0:
        return column.is_null(), field.is_null()
    if kind == 1:
        return column.is_not_null(), field.is_valid()
    if kind == 2 and name in ("id", "small", "name"):
        return column.is_in(values[name]), field.isin(pa.array(values[name]))
    if kind == 3:
        return ~(column < value), ~(field < value)
    pairs = {
        4: (column == value, field == value), 5: (column < value, field < value), 6: (column <= value, field <= value),
        7: (column > value, field > value), 8: (column >= value, field >= value),
    }  # fmt: skip
    return pairs.get(kind, pairs[4])


def test_a_lazy_frame_and_a_data_set_return_what_their_library_does_without_them(wide: Table) -> None:
    """Random conditions; only those that were understood reach the files, the others are applied afterwards."""
    rng, whole = random.Random(1), wide.to_arrow()
    frame, dataset, understood = pl.DataFrame(whole), wide.scan().to_dataset(), 0
    for _ in range(150):
        of_polars, of_arrow = drawn(rng)
        columns = rng.sample(whole.column_names, 3)
        found = wide.scan().to_lazy().filter(of_polars).select(columns).collect()
        assert found.sort(columns).equals(frame.filter(of_polars).select(columns).sort(columns)), of_polars
        wanted = whole.filter(of_arrow).select(columns)
        got = dataset.to_table(columns=columns, filter=of_arrow)
        assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, wanted.to_pylist())), of_arrow
        parts = skipping_part(of_arrow, whole.schema), skipping_part_of_polars(of_polars, whole.schema)
        understood += sum(part is not None for part in parts)
    assert understood > 100


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("name") + "x" == "ax", pl.col("id") * 2 == 10, pl.col("name").str.contains("a"), pl.lit(True),
        pl.col("x") > 1.0, pl.col("f") == 1.1, pl.col("price") == 1.1, pl.col("small") == 1.5, pl.col("yes"),
    ],
)  # fmt: skip
def test_a_condition_that_polars_alone_understands_drops_no_row(wide: Table, condition: pl.Expr) -> None:
    frame = wide.to_polars()
    assert wide.scan().to_lazy().filter(condition).collect().height == frame.filter(condition).height


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened."""
    opened: list[str] = []
    inner = DataFileReader.read

    def counted(self: DataFileReader, *arguments: object, **named: object) -> object:
        opened.append(str(arguments[0]))
        return inner(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(DataFileReader, "read", counted)
    return opened


def test_a_lazy_query_reads_the_files_that_it_needs(lake: Lake, read: list[str]) -> None:
    table = lake.create_table("d.parts", {"id": "bigint", "v": "string"}, options={"write-only": "true"})
    for first in range(0, 40, 10):
        table.write(pa.table({"id": range(first, first + 10), "v": ["a"] * 10}))

    def files(query: object) -> int:
        read.clear()
        assert query() == [15]  # type: ignore[operator]
        return len(read)

    d = table.scan().to_dataset()
    queries = [
        lambda: table.scan().to_lazy().filter(pl.col("id") == 15).collect()["id"].to_list(),
        lambda: d.to_table(filter=ds.field("id") == 15)["id"].to_pylist(),
        lambda: table.scan(filter=ds.field("id") == 15).to_arrow()["id"].to_pylist(),
        lambda: [row[0] for row in table.to_duckdb().filter("id = 15 and v = 'a'").project("id").fetchall()],
        lambda: lakelog.scan_polars(table.path).filter(pl.col("id").is_in([15])).collect()["id"].to_list(),
    ]
    assert [files(query) for query in queries] == [1] * len(queries)
    assert table.scan().to_lazy().head(3).collect().height == 3
    assert duckdb.sql("select count(*), min(id) from d").fetchall() == [(40, 0)]
    assert table.to_duckdb().filter("id > 35").count("*").fetchall() == [(4,)]


def test_a_data_set_is_what_pyarrow_takes_for_one(wide: Table) -> None:
    dataset = wide.scan(["id", "name"]).to_dataset()
    assert dataset.schema.names == ["id", "name"]
    assert dataset.count_rows() == 400
    assert dataset.head(3, columns=["id"]).num_rows == 3
    assert pickle.loads(pickle.dumps(dataset)).count_rows(filter=ds.field("id") < 5) == 5
    made = dataset.to_table(columns={"twice": ds.field("id") + ds.field("id")}, filter=ds.field("id") == 2)
    assert made.to_pylist() == [{"twice": 4}]
    assert pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") == 3).collect().height == 1
    with pytest.raises(UnsupportedFeature, match="to_table"):
        dataset.get_fragments()
    with pytest.raises(InvalidRequest, match="limit"):
        wide.scan().limit(3).to_lazy()


def test_a_lazy_frame_sees_the_table_as_it_is_when_it_is_collected(keyed: Table) -> None:
    lazy = keyed.scan().to_lazy().filter(pl.col("id") > 1)
    keyed.write(rows(1, 2, 3))
    assert sorted(lazy.collect()["id"]) == [2, 3]
    keyed.write(rows(4))
    assert sorted(lazy.collect()["id"]) == [2, 3, 4]


def test_every_public_type_is_a_name_of_lakelog(keyed: Table) -> None:
    for name in lakelog.__all__:
        assert getattr(lakelog, name) is not None
    assert isinstance(keyed.scan(), lakelog.TableScan)
    assert isinstance(keyed.merge(rows(1), "t.id = s.id"), lakelog.MergeBuilder)
    with keyed.writer() as writer:
        assert isinstance(writer, lakelog.TableWriter)

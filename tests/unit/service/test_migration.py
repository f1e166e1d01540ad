"""``lakelog migrate`` of files that Arrow reads: all or nothing, and nothing that does not fit."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow import dataset

from lakelog.cli.main import lakelog as command
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidOption,
    InvalidRequest,
    InvalidSchema,
    NotFound,
    NotInstalled,
)
from lakelog.lake import Lake
from lakelog.service.migration import SOURCES
from lakelog.service.migration.arrow_sources import ParquetSource
from lakelog.service.migration.migration import plan_migration, run_migration

ORDERS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "state": ["new", None, "sent"], "day": ["a", "b", "b"]})


def written(tmp_path: Path, rows: pa.Table = ORDERS, partition_by: Sequence[str] = ()) -> str:
    place = tmp_path / "orders"
    dataset.write_dataset(
        rows,
        place,
        format="parquet",
        partitioning=list(partition_by) or None,
        partitioning_flavor="hive" if partition_by else None,
    )
    return str(place)


def rows_of(lake: Lake, table: str = "db.t") -> list[tuple[object, ...]]:
    return sorted(lake.table(table).scan().to_polars().select("id", "state", "day").rows())


def migrated(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["migrate", *arguments, "--warehouse", str(tmp_path / "warehouse")])


def test_columns_partitions_and_rows_are_the_source_s_in_one_snapshot(tmp_path: Path, lake: Lake) -> None:
    done = migrated(
        tmp_path, written(tmp_path, partition_by=["day"]), "db.t", "--primary-key", "id,day", "--format", "jsonl"
    )
    assert json.loads(done.stdout) == {"table": "db.t", "rows": 3, "snapshot": 1}
    table = lake.table("db.t")
    assert rows_of(lake) == [(1, "new", "a"), (2, None, "b"), (3, "sent", "b")]
    assert (table.primary_keys, table.definition.partition_keys) == (("id", "day"), ("day",))
    assert [kind for _, kind, _ in table.describe()] == ["bigint", "string", "string"]


def test_a_dry_run_shows_the_columns_and_writes_nothing(tmp_path: Path, lake: Lake) -> None:
    done = migrated(tmp_path, written(tmp_path), "db.t", "--primary-key", "id", "--dry-run", "--format", "csv")
    assert done.stdout.splitlines() == [
        "column,type,part", "id,BIGINT NOT NULL,primary key", "state,STRING,", "day,STRING,",
    ]  # fmt: skip
    assert not (tmp_path / "warehouse").exists()


def test_old_times_of_int96_stay_the_same(tmp_path: Path, lake: Lake) -> None:
    times = [datetime(1000, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31)]
    (tmp_path / "files").mkdir()
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "files" / "a.parquet", use_deprecated_int96_timestamps=True)
    source = ParquetSource(lake, str(tmp_path / "files"))
    run_migration(lake, source, plan_migration(lake, source, "db.t"))
    assert lake.table("db.t").scan().to_arrow()["ts"].to_pylist() == times


@pytest.mark.parametrize("footer", [{"org.apache.spark.legacyDateTime": ""}, {"org.apache.spark.version": "2.4.8"}])
@pytest.mark.parametrize(("day", "is_known"), [(date(1582, 10, 4), False), (date(1582, 10, 15), True)])
def test_days_of_the_julian_calendar_are_not_taken_for_others(
    tmp_path: Path, lake: Lake, footer: dict[str, str], day: date, is_known: bool
) -> None:
    (tmp_path / "files").mkdir()
    rows = pa.table({"d": [day, date(2024, 1, 1), None]}).replace_schema_metadata(footer)
    pq.write_table(rows, tmp_path / "files" / "a.parquet")
    source = ParquetSource(lake, str(tmp_path / "files"))
    if is_known:
        assert pa.Table.from_batches(source.batches())["d"].to_pylist() == [day, date(2024, 1, 1), None]
    else:
        with pytest.raises(InvalidRequest, match="'d' of .* 1582-10-04 .* --from spark"):
            list(source.batches())


@pytest.mark.parametrize(
    ("ids", "said"),
    [([1, 2, 1], "1 keys (id) of table db.t have several rows, such as id = 1"), ([1, None, 2], "1 rows have NULL")],
    ids=["duplicates", "null"],
)
def test_rows_that_the_key_does_not_allow_are_reported_before_anything_is_written(
    tmp_path: Path, lake: Lake, ids: list[int | None], said: str
) -> None:
    source = ParquetSource(lake, written(tmp_path, ORDERS.set_column(0, "id", pa.array(ids, pa.int64()))))
    with pytest.raises(InvalidRequest) as refused:
        plan_migration(lake, source, "db.t", ["id"])
    assert said in str(refused.value)
    assert not (tmp_path / "warehouse").exists()


class Broken(ParquetSource):
    """A source that fails after its first batch."""

    def batches(self, columns: Sequence[str] | None = None):
        yield from list(super().batches(columns))[:1]
        if columns is None:
            raise OSError("the disk of the source is gone")


class Growing(ParquetSource):
    """A source that has more rows when it is read than when it was counted."""

    def count(self) -> int:
        return super().count() - 1


@pytest.mark.parametrize(("kind", "error"), [(Broken, OSError), (Growing, CommitConflict)])
def test_after_a_failure_the_new_table_does_not_exist_and_the_command_can_be_repeated(
    tmp_path: Path, lake: Lake, kind: type[ParquetSource], error: type[Exception]
) -> None:
    place = written(tmp_path)
    source = kind(lake, place)
    with pytest.raises(error):
        run_migration(lake, source, plan_migration(lake, source, "db.t", ["id"]))
    assert not lake.table_exists("db.t")
    assert migrated(tmp_path, place, "db.t").exit_code == 0


@pytest.mark.parametrize(("kind", "error"), [(Broken, OSError), (Growing, CommitConflict)])
def test_an_empty_table_is_filled_and_stays_empty_after_a_failure(
    tmp_path: Path, lake: Lake, kind: type[ParquetSource], error: type[Exception]
) -> None:
    place = written(tmp_path)
    lake.create_table("db.t", ORDERS, primary_key="id")  # as a copy that was killed has left it
    source = kind(lake, place)
    with pytest.raises(error):
        run_migration(lake, source, plan_migration(lake, source, "db.t"))
    assert rows_of(lake) == []
    assert lake.table("db.t").latest_snapshot() is None
    assert migrated(tmp_path, place, "db.t", "--primary-key", "id").exit_code == 0
    assert len(rows_of(lake)) == 3


def test_a_table_with_rows_is_not_touched(tmp_path: Path, lake: Lake) -> None:
    place = written(tmp_path)
    migrated(tmp_path, place, "db.t")
    with pytest.raises(AlreadyExists):
        plan_migration(lake, ParquetSource(lake, place), "db.t")
    assert migrated(tmp_path, place, "db.t").exit_code == 1
    assert len(rows_of(lake)) == 3


def test_an_empty_table_of_another_definition_is_not_filled(tmp_path: Path, lake: Lake) -> None:
    place = written(tmp_path)
    lake.create_table("db.t", {"id": "bigint"}, primary_key="id")
    source = ParquetSource(lake, place)
    with pytest.raises(InvalidRequest, match="primary key is"):
        plan_migration(lake, source, "db.t", ["state"])
    with pytest.raises(InvalidRequest, match="option 'bucket' is '1', not '4'"):
        plan_migration(lake, source, "db.t", options={"bucket": "4"})
    with pytest.raises(InvalidSchema, match="no column 'state'"):
        plan_migration(lake, source, "db.t")


def test_a_log_gets_no_row_of_the_history(tmp_path: Path, lake: Lake) -> None:
    done = migrated(
        tmp_path,
        written(tmp_path),
        "db.t",
        "--primary-key",
        "id",
        "--option",
        "log-store.enabled=true",
        "--option",
        "bucket=2",
    )
    assert done.exit_code == 0, done.output
    assert list(lake.table("db.t").tail("earliest", stop="latest")) == []
    assert len(rows_of(lake)) == 3


def test_an_empty_source_makes_an_empty_table(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "files").mkdir()
    pq.write_table(ORDERS.slice(0, 0), tmp_path / "files" / "1.parquet")
    done = migrated(tmp_path, str(tmp_path / "files"), "db.t", "--primary-key", "id", "--format", "jsonl")
    assert json.loads(done.stdout) == {"table": "db.t", "rows": 0, "snapshot": None}
    assert rows_of(lake) == []


def test_an_option_without_a_value_is_refused(tmp_path: Path) -> None:
    done = migrated(tmp_path, written(tmp_path), "db.t", "--option", "bucket")
    assert isinstance(done.exception, InvalidOption)
    assert "write --option bucket=4" in str(done.exception)


def test_the_columns_are_those_of_all_files(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "state": ["a"]}), tmp_path / "files" / "1.parquet")
    pq.write_table(ORDERS, tmp_path / "files" / "2.parquet")
    assert migrated(tmp_path, str(tmp_path / "files"), "db.t").exit_code == 0
    assert (1, "a", None) in rows_of(lake)
    assert len(rows_of(lake)) == 4
    pq.write_table(pa.table({"id": ["one"]}), tmp_path / "files" / "3.parquet")
    with pytest.raises(InvalidSchema, match="do not have the same columns"):
        ParquetSource(lake, str(tmp_path / "files"))


_STRUCTS = (
    ("struct", [{"a": 1}], [{"a": 1, "b": "x"}]),
    ("array", [[{"a": 1}], None], [[{"B": "x", "a": 2}, None], []]),
    ("map", [[("k", {"a": 1})]], [[("k", {"A": 1, "b": None})], None]),
    ("deep", [{"s": {"a": 1}}, None], [{"s": {"a": 1, "b": [1]}}]),
)


@pytest.mark.parametrize(("kind", "old", "new"), _STRUCTS, ids=[name for name, *_ in _STRUCTS])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_struct_has_the_fields_of_all_files(
    tmp_path: Path, lake: Lake, kind: str, old: list[Any], new: list[Any], is_reversed: bool
) -> None:
    types = [_typed(kind, values) for values in (old, new)]
    (tmp_path / "files").mkdir()
    files = [pa.table({"v": pa.array(v, t)}) for v, t in zip((old, new), types, strict=True)]
    for at, rows in enumerate(reversed(files) if is_reversed else files):
        pq.write_table(rows, tmp_path / "files" / f"{at}.parquet")
    assert migrated(tmp_path, str(tmp_path / "files"), "db.t").exit_code == 0
    got = [_with_all(v) for v in lake.table("db.t").scan().to_arrow()["v"].to_pylist()]
    assert sorted(map(str, got)) == sorted(str(_with_all(v)) for v in old + new)


def _typed(kind: str, values: list[Any]) -> pa.DataType | None:
    if kind != "map":
        return None
    names = next(iter(dict(values[0]).values()))
    return pa.map_(pa.string(), pa.struct([(n, pa.int64() if n in "aA" else pa.string()) for n in names]))


def _with_all(value: Any) -> Any:
    """A value without the fields that are NULL, its names in lower case: what the files say."""
    if isinstance(value, dict):
        return {k.lower(): _with_all(v) for k, v in sorted(value.items(), key=lambda i: i[0].lower()) if v is not None}
    return [_with_all(v) for v in value] if isinstance(value, list | tuple) else value


def test_columns_whose_names_differ_by_case_are_one(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "files" / "Day=1").mkdir(parents=True)
    (tmp_path / "files" / "day=2").mkdir()
    pq.write_table(pa.table({"Id": [1], "state": ["a"]}), tmp_path / "files" / "Day=1" / "1.parquet")
    pq.write_table(pa.table({"STATE": ["b"], "id": [2], "DAY": [9]}), tmp_path / "files" / "day=2" / "2.parquet")
    assert migrated(tmp_path, str(tmp_path / "files"), "db.t").exit_code == 0
    assert lake.table("db.t").scan().to_polars().sort("Id").rows() == [(1, "a", 1), (2, "b", 2)]
    lake.sql("create table db.u (ID bigint, State string, dAy string) partitioned by (dAy)")
    assert migrated(tmp_path, str(tmp_path / "files"), "db.u").exit_code == 0
    assert lake.table("db.u").scan().to_polars().sort("ID").rows() == [(1, "a", "1"), (2, "b", "2")]


@pytest.mark.parametrize("columns", [{"id": [1], "ID": [2]}, {"s": pa.array([{"a": 1, "A": 2}])}])
def test_columns_of_one_file_that_sql_cannot_tell_apart_are_refused(
    tmp_path: Path, lake: Lake, columns: dict[str, Any]
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    done = migrated(tmp_path, str(tmp_path / "1.parquet"), "db.t")
    assert isinstance(done.exception, InvalidSchema) and "one in SQL" in str(done.exception)
    assert not lake.table_exists("db.t")


@pytest.mark.parametrize(
    ("values", "kind", "typed"),
    [
        (["0x10", "0x11"], None, ["0x10", "0x11"]),
        (["01234", "99950"], None, ["01234", "99950"]),
        (["7", "-12", "0"], None, [7, -12, 0]),
        (["7", "2147483648"], None, ["7", "2147483648"]),
        (["+7", "-0"], None, ["+7", "-0"]),
        (["7", "__HIVE_DEFAULT_PARTITION__"], None, [7, None]),
        (["a%2Fb", "1_000"], None, ["a/b", "1_000"]),
        (["7", "8"], "string", ["7", "8"]),
        (["01234", "99950"], "string", ["01234", "99950"]),
        (["01", "12"], "tinyint", [1, 12]),
        (["2024-01-31"], "date", [dt.date(2024, 1, 31)]),
        (["1.50"], "decimal(5,2)", [Decimal("1.50")]),
    ],
)
def test_values_of_folders_are_kept(
    tmp_path: Path, lake: Lake, values: list[str], kind: str | None, typed: list[Any]
) -> None:
    for value in values:
        (tmp_path / "files" / f"k={value}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / f"k={value}" / "a.parquet")
    if kind is not None:
        lake.sql(f"create table db.t (id bigint, k {kind}) partitioned by (k)")
    assert migrated(tmp_path, str(tmp_path / "files"), "db.t").exit_code == 0
    assert sorted(lake.table("db.t").scan().to_arrow()["k"].to_pylist(), key=str) == sorted(typed, key=str)


def test_a_delta_table_is_read_as_a_data_set_with_its_partitions(tmp_path: Path, lake: Lake) -> None:
    class DeltaTable:
        """What the copy uses of deltalake's class."""

        def __init__(self, place: str) -> None:
            self.to_pyarrow_dataset = lambda: dataset.dataset(place, partitioning="hive")

        def metadata(self) -> SimpleNamespace:
            return SimpleNamespace(partition_columns=["day"])

    place = written(tmp_path, partition_by=["day"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "deltalake", SimpleNamespace(DeltaTable=DeltaTable))
        done = migrated(tmp_path, place, "db.t", "--from", "delta")
    assert done.exit_code == 0, done.output
    assert lake.table("db.t").definition.partition_keys == ("day",)
    assert len(rows_of(lake)) == 3


def test_a_source_that_is_not_there_and_one_without_its_package(tmp_path: Path, lake: Lake) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        SOURCES.create("parquet", lake, str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no Parquet file"):
        SOURCES.create("parquet", lake, str(tmp_path / "empty"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "deltalake", None)
        with pytest.raises(NotInstalled, match=r"lakelog\[delta\]"):
            SOURCES.create("delta", lake, str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"write catalog\.db\.table"):
        SOURCES.create("iceberg", lake, "orders")


@pytest.mark.parametrize(
    ("folder", "remedy"),
    [("_delta_log", "--from delta"), (".hoodie", "--from spark"), ("_spark_metadata", "--from spark")],
)
def test_files_of_which_only_some_are_the_table_are_refused(
    folder: str, remedy: str, tmp_path: Path, lake: Lake
) -> None:
    place = Path(written(tmp_path))
    (place / folder).mkdir()
    with pytest.raises(InvalidRequest, match=f"write {remedy}"):
        ParquetSource(lake, str(place))
    with pytest.raises(InvalidRequest, match=f"write {remedy}"):
        ParquetSource(lake, place.as_uri())


def test_rows_in_folders_that_arrow_skips_are_not_lost_silently(tmp_path: Path, lake: Lake) -> None:
    place = Path(written(tmp_path))
    (place / "_SUCCESS").write_text("")
    (place / "_temporary").mkdir()
    assert ParquetSource(lake, str(place)).count() == 3
    (place / "_day=1").mkdir()
    pq.write_table(ORDERS, place / "_day=1" / "1.parquet")
    with pytest.raises(InvalidRequest, match="skips the folder '_day=1'"):
        ParquetSource(lake, str(place))


def test_an_empty_table_whose_key_the_source_lacks_is_not_filled(tmp_path: Path, lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, state string, day string, n int, primary key (n)) using lakelog")
    with pytest.raises(InvalidSchema, match="no column 'n'"):
        plan_migration(lake, ParquetSource(lake, written(tmp_path)), "db.t")

from __future__ import annotations

import contextlib
import datetime as dt
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changelogs import newest
from lakelog import connect
from lakelog.errors import (
    CommitDecided,
    Fenced,
    InvalidSchema,
    LakelogError,
    Unavailable,
    UnsupportedFeature,
    after_decision,
)
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.logstore.formats import log_format

LOG = "'log-store.enabled' = 'true'"
INTERNAL = ["_kind", "_order", "_row", "_partition", "_offset", "_row_of_group", "_row_list", "_level", "_sequence"]


def make(tmp_path: Path, columns: str, options: str = LOG, key: str = "id") -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    primary = f", primary key ({key})" if key else ""
    given = f" tblproperties ({options})" if options else ""
    lake.sql(f"create table db.t (id bigint, {columns}{primary}) using lakelog{given}")
    return lake.table("db.t")


def columns_of(kind: pa.DataType, *values: Any, name: str = "v", first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + len(values)), name: pa.array(values, kind)})


def bad_text(*values: bytes) -> pa.Array:
    buffers = pa.array(values, pa.binary()).buffers()
    return pa.StringArray.from_buffers(len(values), buffers[1], buffers[2])


def everywhere(table: Table) -> list[list[dict[str, Any]]]:
    """The rows as each kind of reader finds them."""
    found = [table.scan().to_arrow().to_pylist()]
    if table.logical.log is not None:
        found.append(table.scan(options={"read.mode": "union"}).to_arrow().to_pylist())
        found += [folded(table, "earliest"), folded(table, "latest-full")]
    return [sorted(rows, key=lambda row: row["id"]) for rows in found]


def folded(table: Table, start: str) -> list[dict[str, Any]]:
    return list(newest(table.tail(start, stop="latest")).values())


def refused(table: Table, rows: pa.Table, *texts: str) -> None:
    """Such rows are refused with these words in the error, and nothing of them is anywhere; later rows go on."""
    before = everywhere(table)
    with pytest.raises(InvalidSchema) as told:
        table.write(rows)
    assert all(text in str(told.value) for text in texts), told.value
    assert everywhere(table) == before and not table.logical.registered.writers()
    table.seal()


@pytest.mark.parametrize("options", [LOG, "", f"{LOG}, 'log.format' = 'arrow'"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_text_that_is_not_utf8_is_refused_before_anything_is_written(tmp_path, options, file_format) -> None:
    both = f"{options}, " if options else ""
    table = make(tmp_path, "v string", f"{both}'file.format' = '{file_format}'")
    table.write(columns_of(pa.string(), "a", "b"))
    wrong = pa.table({"id": [2, 3, 4], "v": bad_text(b"fine", b"\xff\x00", b"fine")})
    refused(table, wrong, "column 'v'", "db.t", r"b'\xff\x00'", "row 1")
    table.write(columns_of(pa.string(), "z", first=7))
    assert all([row["v"] for row in rows] == ["a", "b", "z"] for rows in everywhere(table))


def test_text_that_is_not_utf8_is_found_in_nested_columns(tmp_path) -> None:
    table = make(tmp_path, "v array<struct<a: string>>")
    inner = pa.StructArray.from_arrays([bad_text(b"ok", b"\xfe")], ["a"])
    refused(table, pa.table({"id": [1, 2], "v": pa.ListArray.from_arrays([0, 1, 2], inner)}), "'v'", r"\xfe", "row 1")


@pytest.mark.parametrize(
    ("column", "kind", "value", "shown"),
    [
        ("timestamp_ltz", pa.timestamp("us", "UTC"), 253402318799000000, "10000-01-01 04:59:59"),
        ("timestamp_ntz", pa.timestamp("us"), -62135600000000000, "0000-12-31"),
        ("timestamp_ntz", pa.timestamp("us"), 2**63 - 1, "294247-01-10"),
        ("date", pa.date32(), 2932897, "10000-01-01"),
        ("array<date>", pa.list_(pa.date32()), [0, 2932897], "10000-01-01"),
    ],
)
def test_a_time_outside_the_years_of_a_log_is_refused(tmp_path, column, kind, value, shown) -> None:
    table = make(tmp_path, f"v {column}")
    refused(table, columns_of(kind, None, value), "column 'v'", shown, "row 1", "0001 to 9999")


@pytest.mark.parametrize("options", [LOG, ""])
def test_a_time_that_orc_files_cannot_give_back_is_refused_before_anything_is_written(tmp_path, options) -> None:
    both = f"{options}, " if options else ""
    table = make(tmp_path, "v timestamp_ntz", f"{both}'file.format' = 'orc'")
    before = everywhere(table)
    with pytest.raises(UnsupportedFeature, match=r"column 'v' has a time outside of 1677.*'file.format' = 'parquet'"):
        table.write(columns_of(pa.timestamp("us"), dt.datetime(9999, 12, 31)))
    assert everywhere(table) == before
    table.write(columns_of(pa.timestamp("us"), dt.datetime(2200, 1, 1)))
    assert all([row["v"].year for row in rows] == [2200] for rows in everywhere(table))


def test_a_key_outside_the_years_of_python_is_refused_without_a_log_too(tmp_path: Path) -> None:
    """Scans prune files by the bounds of their keys."""
    table = make(tmp_path, "v timestamp(6)", options="", key="v")
    late = pa.array([253_402_300_800 * 10**6], pa.int64()).view(pa.timestamp("us"))
    refused(table, pa.table({"id": [1], "v": late}), "column 'v'", "10000-01-01", "0001 to 9999")


@pytest.mark.parametrize("kind", ["timestamp(9)", "timestamp_ntz(9)"])
def test_a_partition_of_nanoseconds_is_read(tmp_path: Path, kind: str) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t (id bigint, v {kind}) partitioned by (v)")
    table = lake.table("db.t")
    table.write(pa.table({"id": [1], "v": pa.array([1], pa.int64()).view(pa.timestamp("ns"))}))
    assert table.scan().to_arrow().column("v").cast(pa.int64()).to_pylist() == [1]


def test_the_first_and_the_last_moment_of_the_years_of_a_log_are_read_by_all(tmp_path) -> None:
    table = make(tmp_path, "v timestamp_ntz, d date")
    times = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    rows = columns_of(pa.timestamp("us"), *times).append_column("d", pa.array([t.date() for t in times]))
    table.write(rows)
    assert all(found == rows.to_pylist() for found in everywhere(table))


def test_a_table_without_a_log_keeps_times_of_any_year(tmp_path) -> None:
    table = make(tmp_path, "v timestamp_ntz", "")
    table.write(columns_of(pa.timestamp("us"), 253402318799000000))
    assert table.scan().to_arrow().column("v").cast(pa.int64()).to_pylist() == [253402318799000000]


def test_records_of_others_with_times_outside_these_years_are_read() -> None:
    form = log_format("debezium-json")
    value = b'{"before":null,"after":{"id":1,"v":"+10000-01-01 04:59:59.000000","d":"+10000-01-01"},"op":"c"}'
    schema = pa.schema([("id", pa.int64()), ("v", pa.timestamp("us")), ("d", pa.date32())])
    read = form.decode(pa.array([value], pa.large_binary()), schema)
    assert read.column("v").cast(pa.int64()).to_pylist() == [253402318799000000]
    assert read.column("d").cast(pa.int32()).to_pylist() == [2932897]


@pytest.mark.parametrize("digits", [5, 30])
def test_a_decimal_with_more_digits_than_its_type_is_refused(tmp_path, digits) -> None:
    kind = pa.decimal128(digits, 2)
    table = make(tmp_path, f"v decimal({digits}, 2)")
    large = pa.array([None, 10**digits - 1, 10**digits], pa.decimal128(38, 0)).buffers()
    rows = pa.table({"id": [1, 2, 3], "v": pa.Array.from_buffers(kind, 3, large)})
    with pytest.raises(InvalidSchema, match=r"column 'v' .* holds 10+\.00 \(row 2 .* more digits than decimal128"):
        table.write(rows)
    table.write(rows[:2])
    assert all([r["v"] for r in found] == [None, rows["v"][1].as_py()] for found in everywhere(table))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_partition_that_no_directory_can_have_is_refused(tmp_path, file_format) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    options = f"tblproperties ('bucket' = '-1', 'file.format' = '{file_format}')"
    lake.sql(f"create table db.t (p timestamp_ntz, id bigint) using lakelog partitioned by (p) {options}")
    table = lake.table("db.t")
    times = pa.array([253402318799000000, 0], pa.int64()).cast(pa.timestamp("us"))
    table.write(pa.table({"p": times[1:], "id": [0]}))
    with pytest.raises(InvalidSchema, match="cannot be a directory name"):
        table.write(pa.table({"p": times, "id": [1, 2]}))
    assert table.scan().to_arrow().column("id").to_pylist() == [0]


@pytest.mark.parametrize("value", ["x" * 300, "é" * 200])
def test_a_partition_value_too_long_for_a_directory_blocks_no_other_writer(tmp_path, value) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id bigint, p string, primary key (id, p)) using lakelog partitioned by (p) "
        f"tblproperties ('bucket' = '1', {LOG})"
    )
    table = lake.table("db.t")
    with pytest.raises(InvalidSchema, match="partition column 'p' of table db.t has the value .* Write a shorter"):
        table.write(pa.table({"id": [1], "p": [value]}))
    table.write(pa.table({"id": [2], "p": ["short"]}))
    assert all([row["id"] for row in found] == [2] for found in everywhere(table))


def test_one_id_in_two_partitions_is_two_keys_where_rows_are_judged(tmp_path) -> None:
    """A partition can hold its sum; a sum that only a row of another partition would hide is refused."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (p int, id bigint, v tinyint, primary key (p, id)) using lakelog partitioned by (p) "
        "tblproperties ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum')"
    )
    table = lake.table("db.t")
    rows = pa.table({"p": pa.array([1, 2], pa.int32()), "id": [1, 1], "v": pa.array([100, 100], pa.int8())})
    table.write(rows)
    hidden = pa.table({"p": pa.array([3, 4, 3], pa.int32()), "id": [1] * 3, "v": pa.array([100, -100, 100], pa.int8())})
    with pytest.raises(InvalidSchema, match="column 'v' of key .* have a sum that does not fit TINYINT"):
        table.write(hidden)
    assert table.scan().to_arrow().column("v").to_pylist() == [100, 100]


def test_a_map_with_a_key_twice_is_refused(tmp_path) -> None:
    table = make(tmp_path, "v map<string, int>")
    kind = pa.map_(pa.string(), pa.int32())
    refused(table, columns_of(kind, [("a", 1), ("b", 2)], [("b", 1), ("b", 2)]), "column 'v'", "'b'", "row 1")
    table.write(columns_of(kind, [("a", 1), ("b", 2)], [("b", 1)], None, []))
    assert all([r["v"] for r in rows] == [[("a", 1), ("b", 2)], [("b", 1)], None, []] for rows in everywhere(table))


@pytest.mark.parametrize("buckets", [1, 4])
def test_zero_is_one_key_and_so_is_nan_in_both_stores(tmp_path, buckets) -> None:
    lake = connect(warehouse=str(tmp_path))
    lake.sql(
        f"create table db.t (k double, v int, primary key (k)) using lakelog "
        f"tblproperties ({LOG}, 'bucket' = '{buckets}', 'log-store.data-format' = 'debezium-json')"
    )
    table = lake.table("db.t")
    odd = float(np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0])
    for number, key in enumerate([0.0, -0.0, float("nan"), odd]):
        table.write(pa.table({"k": [key], "v": pa.array([number], pa.int32())}))
    assert sorted(r["v"] for r in table.scan().to_arrow().to_pylist()) == [1, 3]
    assert {bytes(k) for part in table.log_records() for k in part["key"].to_pylist() if k} == {
        b'{"k":0.0}',
        b'{"k":"NaN"}',
    }


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize("key", ["id", ""])
def test_a_column_may_have_any_name_that_is_not_reserved(tmp_path, name, key) -> None:
    table = make(tmp_path, f"`{name}` string", key=key)
    table.write(columns_of(pa.string(), "a", "b", name=name))
    table.write(columns_of(pa.string(), "c", name=name, first=2))
    assert all([row[name] for row in rows] == ["a", "b", "c"] for rows in everywhere(table))
    found = table.scan(filter=f"`{name}` = 'b'").to_arrow()
    assert found.to_pylist() == [{"id": 1, name: "b"}]


@pytest.mark.parametrize(
    "name", ["_lakelog_order", "_LAKELOG_kind", "_row_kind", "_Row_Kind", "_KEY_id", "_VALUE_KIND"]
)
def test_a_reserved_name_is_refused_at_create_and_alter(tmp_path, name) -> None:
    with pytest.raises(InvalidSchema, match="reserved"):
        make(tmp_path, f"`{name}` string")
    table = make(tmp_path, "v string", "")
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    for change in (f"add column `{name}` string", f"rename column v to `{name}`"):
        with pytest.raises(InvalidSchema, match="reserved"):
            lake.sql(f"alter table db.t {change}")
    assert table.scan().to_arrow().num_rows == 0


def test_what_the_files_cannot_hold_is_refused_before_the_rows_are_decided(tmp_path) -> None:
    table = make(tmp_path, "v timestamp(9), w timestamp(3)", f"{LOG}")
    stamps = {name: pa.array([1], pa.timestamp(unit)) for name, unit in (("v", "ns"), ("w", "ms"))}
    with pytest.raises(LakelogError, match="TIMESTAMP"):
        table.write(pa.table({"id": [1], **stamps}))
    assert everywhere(table)[0] == [] and not table.logical.registered.writers()


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("options", ["", LOG])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, options) -> None:
    table = make(tmp_path, "v string", options)
    rng = np.random.default_rng(0)
    large = columns_of(pa.string(), *(rng.bytes(3000).hex() for _ in range(1500)))
    with small_disk(1 << 20), pytest.raises(Unavailable, match=str(tmp_path)):
        table.write(large)
    assert everywhere(table)[0] == []
    table.write(large)
    assert everywhere(table)[0] == large.to_pylist()


@pytest.mark.parametrize("key", ["id", ""])
def test_a_full_disk_after_the_decision_does_not_require_the_rows_again(tmp_path, monkeypatch, key) -> None:
    table = make(tmp_path, "v string", key=key)
    rows = columns_of(pa.string(), "a", "b")
    open_output = LocalFileIO.open_output

    def full(self: LocalFileIO, path: str) -> pa.NativeFile:
        if "/bucket-" in path:
            raise OSError(28, "No space left on device", path)
        return open_output(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "open_output", full)
        with pytest.raises(CommitDecided, match=r"db\.t.*do not write them again"):
            table.write(rows)
        assert table.scan().to_arrow().num_rows == 2, "they count"
    table.seal()
    assert all(found == rows.to_pylist() for found in everywhere(table))


@pytest.mark.parametrize("why", [OSError(28, "No space left on device"), Fenced("ended"), KeyError("_kind")])
def test_a_failure_after_the_decision_says_so(why) -> None:
    with pytest.raises(CommitDecided, match="do not write them again") as told, after_decision("db.t"):
        raise why
    assert told.value.__cause__ is why and not told.value.retriable and "db.t" in str(told.value)
    with pytest.raises(CommitDecided) as again, after_decision("db.t"):
        raise told.value
    assert again.value is told.value

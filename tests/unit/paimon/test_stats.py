from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidOption
from lakelog.fileformat.avro_file import read_records
from lakelog.fileformat.parquet import ParquetFormat
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.metadata.column_stats import collect_stats, merge_bounds, parse_stats_modes, stats_bounds
from lakelog.paimon.metadata.data_file import EMPTY_STATS, SimpleStats
from lakelog.paimon.metadata.manifest import entry_from_record
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import BIGINT, INT, STRING, ArrayType, DataField, parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "data"

UNBOUNDED = [parse_type(text) for text in ("BINARY(4)", "BYTES", "TIMESTAMP(9)")]
"""Types for which Paimon keeps no bounds of a Parquet file, and lakelog does."""


def shown(bounds: tuple[Any, Any, int | None]) -> str:
    """As text, because NaN differs from itself; both zeros are the same bound."""
    return repr([v + 0.0 if isinstance(v, float) else v for v in bounds])


def stats_of(values: list[Any], kind: str, mode: str = "truncate(16)") -> tuple[Any, Any, int | None]:
    field = DataField(0, "c", parse_type(kind))
    table = pa.Table.from_arrays([pa.array(values, arrow_schema([field]).field(0).type)], ["c"])
    return stats_bounds(collect_stats(table, [field], mode), [field.type], 0)


@pytest.mark.parametrize("name", ["types_parquet", "pk_dedup", "append_unaware", "pk_partitioned"])
def test_statistics_are_those_that_paimon_wrote(name: str) -> None:
    root = GOLDEN / name / "g.db" / name
    schema = TableSchema.from_json((root / "schema" / "schema-0").read_bytes())
    seen = 0
    for manifest in root.glob("manifest/manifest-[0-9a-f]*"):
        for entry in map(entry_from_record, read_records(manifest.read_bytes())):
            (path,) = root.rglob(entry.file.file_name)
            batches = ParquetFormat().read(LocalFileIO(), str(path), fields=schema.fields)
            fields = schema.select(entry.file.value_stats_cols or schema.field_names)
            types = [f.type for f in fields]
            ours = collect_stats(pa.Table.from_batches(batches), fields)
            for i in range(len(types)):
                low, high, nulls = stats_bounds(ours, types, i)
                expected = stats_bounds(entry.file.value_stats, types, i)
                if expected[:2] == (None, None) and types[i] in UNBOUNDED:
                    low, high = None, None
                assert shown((low, high, nulls)) == shown(expected), fields[i]
            seen += 1
    assert seen > 0


def test_bounds_and_nulls_of_ordinary_columns() -> None:
    assert stats_of([3, None, 1], "INT") == (1, 3, 1)
    assert stats_of(["b", "a"], "STRING") == ("a", "b", 0)
    assert stats_of([Decimal("1.50"), Decimal("-2.00")], "DECIMAL(20, 2)") == (Decimal("-2.00"), Decimal("1.50"), 0)
    assert stats_of([date(2024, 1, 2)], "DATE") == (date(2024, 1, 2), date(2024, 1, 2), 0)
    stamp = datetime(2024, 1, 2, 3, 4, 5, 678901)
    assert stats_of([stamp, None], "TIMESTAMP(6)") == (stamp, stamp, 1)
    assert stats_of([True, False], "BOOLEAN") == (False, True, 0)


def test_a_column_of_nulls_or_of_no_rows_has_no_bounds() -> None:
    assert stats_of([None, None], "STRING") == (None, None, 2)
    assert stats_of([], "DOUBLE") == (None, None, 0)


def test_not_a_number_is_above_all_and_zeros_have_both_signs() -> None:
    low, high, _ = stats_of([1.0, math.nan], "DOUBLE")
    assert low == 1.0
    assert math.isnan(high)
    low, high, _ = stats_of([math.nan], "FLOAT")
    assert math.isnan(low)
    low, high, _ = stats_of([0.0, 0.0], "DOUBLE")
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("a" * 16, "a" * 16, "a" * 16),
        ("a" * 17, "a" * 16, "a" * 15 + "b"),
        ("a" * 15 + "\U0010ffff" + "z", "a" * 15 + "\U0010ffff", "a" * 14 + "b"),
        ("a" * 15 + "\ud7ff" + "z", "a" * 15 + "\ud7ff", "a" * 15 + "\ue000"),
        ("\U0010ffff" * 17, "\U0010ffff" * 16, None),
    ],
)
def test_long_text_is_cut_to_bounds_that_hold(value: str, low: str, high: str | None) -> None:
    assert stats_of([value], "STRING") == (low, high, 0)
    assert low.encode() <= value.encode()
    assert high is None or value.encode() <= high.encode()


def test_long_bytes_are_cut_to_bounds_that_hold() -> None:
    assert stats_of([b"\x01" * 17], "BYTES") == (b"\x01" * 16, b"\x01" * 15 + b"\x02", 0)
    assert stats_of([b"\x01" + b"\xff" * 17], "BYTES") == (b"\x01" + b"\xff" * 15, b"\x02", 0)
    assert stats_of([b"\xff" * 17], "BYTES") == (b"\xff" * 16, None, 0)


def test_modes_say_how_much_is_kept() -> None:
    assert stats_of(["a" * 20], "STRING", "full") == ("a" * 20, "a" * 20, 0)
    assert stats_of(["a" * 20, None], "STRING", "counts") == (None, None, 1)
    assert stats_of(["abc"], "STRING", "truncate(2)") == ("ab", "ac", 0)
    fields = [DataField(0, "a", INT), DataField(1, "b", INT)]
    table = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    assert collect_stats(table, fields, "none") == EMPTY_STATS
    stats = collect_stats(table, fields, "none", parse_stats_modes({"fields.b.stats-mode": "full", "bucket": "1"}))
    assert [stats_bounds(stats, [INT, INT], i) for i in range(2)] == [(None, None, None), (2, 2, 0)]
    with pytest.raises(InvalidOption, match=r"truncate\(0\)"):
        collect_stats(table, fields, "truncate(0)")


def test_a_nested_column_has_a_null_count_only() -> None:
    field = DataField(0, "c", ArrayType(INT))
    table = pa.table({"c": pa.array([[1], None], pa.list_(pa.int32()))})
    assert stats_bounds(collect_stats(table, [field]), [field.type], 0) == (None, None, 1)


def test_statistics_of_fewer_columns_say_nothing() -> None:
    assert stats_bounds(EMPTY_STATS, [INT, STRING], 1) == (None, None, None)


def test_a_time_that_python_cannot_say_has_no_bound() -> None:
    row = encode_row([2**62, 3_000_000], [parse_type("TIMESTAMP(6)"), parse_type("DATE")])
    stats = SimpleStats(row, row, (0, 0))
    kinds = [parse_type("TIMESTAMP(6)"), parse_type("DATE")]
    assert stats_bounds(stats, kinds, 0) == (None, None, 0)
    assert stats_bounds(stats, kinds, 1) == (None, None, 0)


def test_bounds_of_partitions_hold_for_all_of_them() -> None:
    stats = merge_bounds([("b", 2), ("a", None), (None, 1)], [STRING, BIGINT])
    assert stats_bounds(stats, [STRING, BIGINT], 0) == ("a", "b", 1)
    assert stats_bounds(stats, [STRING, BIGINT], 1) == (1, 2, 1)
    assert merge_bounds([()], []) == merge_bounds([], [STRING]) == EMPTY_STATS

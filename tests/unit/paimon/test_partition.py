from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.avro_file import read_records
from lakelog.paimon.metadata.manifest import entry_from_record
from lakelog.paimon.rows.partition import decode_partition, encode_partition, partition_dir
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import INT, STRING, parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "data"


def directory(value: Any, kind: str, options: dict[str, str] | None = None) -> str:
    schema = new_schema([("p", parse_type(kind), None), ("v", INT, None)], [], ["p"], options)
    assert decode_partition(encode_partition([value], schema), schema) == (value,)
    return partition_dir([value], schema)


def test_a_table_without_partitions_has_no_directory() -> None:
    schema = new_schema([("v", INT, None)])
    assert partition_dir((), schema) == ""
    assert encode_partition((), schema) == bytes(12)
    assert decode_partition(bytes(12), schema) == ()


def test_the_directories_of_paimon_are_those_of_the_values_in_its_manifests() -> None:
    root = GOLDEN / "pk_partitioned" / "g.db" / "pk_partitioned"
    schema = TableSchema.from_json((root / "schema" / "schema-0").read_bytes())
    seen = set()
    for manifest in root.glob("manifest/manifest-[0-9a-f]*"):
        for entry in map(entry_from_record, read_records(manifest.read_bytes())):
            values = decode_partition(entry.partition, schema)
            assert encode_partition(values, schema) == entry.partition
            path = root / partition_dir(values, schema) / f"bucket-{entry.bucket}" / entry.file.file_name
            assert path.exists()
            seen.add(values)
    assert len(seen) > 1


def test_columns_are_in_the_order_of_the_partition_keys() -> None:
    schema = new_schema([("a", INT, None), ("b", STRING, None), ("v", INT, None)], [], ["b", "a"])
    assert partition_dir(("x", 1), schema) == "b=x/a=1/"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("eu west", "eu west"),
        ("us:1", "us%3A1"),
        ("a/b=c d%é", "a%2Fb%3Dc d%25é"),
        ("\x01\x7f", "%01%7F"),
        ("[x]^{y}\\'\"#*?", "%5Bx%5D%5E%7By%7D%5C%27%22%23%2A%3F"),
        (None, "__DEFAULT_PARTITION__"),
        ("", "__DEFAULT_PARTITION__"),
        ("  ", "__DEFAULT_PARTITION__"),
    ],
)
def test_text_is_escaped_and_blank_text_has_the_default_name(value: str | None, text: str) -> None:
    assert directory(value, "STRING") == f"p={text}/"


def test_the_default_name_can_be_chosen() -> None:
    assert directory(None, "INT", {"partition.default-name": "__NULL__"}) == "p=__NULL__/"


@pytest.mark.parametrize(
    ("value", "kind", "legacy", "plain"),
    [
        (date(2024, 2, 29), "DATE", "19782", "2024-02-29"),
        (date(1969, 7, 20), "DATE", "-165", "1969-07-20"),
        (True, "BOOLEAN", "true", "true"),
        (-7, "BIGINT", "-7", "-7"),
        (Decimal("10.50"), "DECIMAL(5, 2)", "10.50", "10.50"),
        (Decimal("0.0000001"), "DECIMAL(10, 7)", "0.0000001", "0.0000001"),
        (time(1, 2, 3, 4000), "TIME(3)", "3723004", "01%3A02%3A03.004"),
        (1.5, "DOUBLE", "1.5", "1.5"),
        (1e10, "DOUBLE", "1.0E10", "1.0E10"),
        (1e-5, "DOUBLE", "1.0E-5", "1.0E-5"),
        (float("inf"), "DOUBLE", "Infinity", "Infinity"),
        (-float("inf"), "FLOAT", "-Infinity", "-Infinity"),
        (datetime(2024, 1, 2, 3, 4), "TIMESTAMP(3)", "2024-01-02T03%3A04", "2024-01-02 03%3A04%3A00.000"),
        (datetime(2024, 1, 2, 3, 4, 5), "TIMESTAMP(0)", "2024-01-02T03%3A04%3A05", "2024-01-02 03%3A04%3A05"),
        (datetime(2024, 1, 2, 3, 4, 5, 6000), "TIMESTAMP(6)", "2024-01-02T03%3A04%3A05.006",
         "2024-01-02 03%3A04%3A05.006000"),
        (np.datetime64("2024-01-02T03:04:05.000000007", "ns"), "TIMESTAMP(9)", "2024-01-02T03%3A04%3A05.000000007",
         "2024-01-02 03%3A04%3A05.000000007"),
    ],
)  # fmt: skip
def test_values_are_written_as_stored_or_as_sql_text(value: Any, kind: str, legacy: str, plain: str) -> None:
    assert directory(value, kind) == f"p={legacy}/"
    assert directory(value, kind, {"partition.legacy-name": "false"}) == f"p={plain}/"


def test_a_value_without_a_text_that_all_agree_on_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="BYTES"):
        directory(b"1", "BYTES")
    stamp = datetime(2024, 1, 1, tzinfo=UTC)
    zoned = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert directory(stamp, zoned) == "p=2024-01-01T00%3A00/"
    with pytest.raises(UnsupportedFeature, match="ZONE"):
        directory(stamp, zoned, {"partition.legacy-name": "false"})

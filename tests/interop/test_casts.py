"""The casts of the unit tests that keep a value, done by Apache Paimon's Java core 1.4.2 on the same file: equal."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "paimon"))

from paimon_java import PaimonJava
from test_casts import FROM_TEXT, NESTED, NUMBERS, TIMES, TO_TEXT, UNFIT

from lakelog.filestore.store import FileStore
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.schema.schema import TableSchema
from printed import printed_rows

# Paimon takes the digits of a double for a float, keeps the spaces of CHAR, and does not fill up text of nested values;
# 1.4.2 knows no T between date and time, and takes times before 1970 to the day after, later versions do as here
OTHERS = ("FLOAT", "DECIMAL(10, 9)"), ("ROW<INT, ARRAY<STRING>>", "CHAR(14)"), ("TIMESTAMP(6)", "DATE")
CASES = [
    c
    for c in (*NUMBERS, *TO_TEXT, *FROM_TEXT, *TIMES)
    if c[3] is not UNFIT and c[:2] not in OTHERS and "T" not in str(c[2]) and c[0] != "CHAR(5)"
]


def given(value: Any) -> Any:
    """The value as the Java rows are made of it."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_old_values_read_as_paimon_reads_them(java: PaimonJava, tmp_path: Path, kind: str) -> None:
    # Avro has no nanoseconds, and Paimon reads its maps in no order
    cases = [c for c in CASES if kind != "avro" or not ("(9)" in c[0] + c[1] or c[0].startswith("MAP"))]
    columns = {f"c{at}": NESTED.get(old, old) for at, (old, _, _, _) in enumerate(cases)}
    java.create(str(tmp_path), "t", columns, options={"bucket": "-1", "file.format": kind})
    rows = [[given(value) for _, _, value, _ in cases], [None] * len(cases)]
    java.write(str(tmp_path), "g", "t", rows)
    changes = [java.change.updateColumnType(f"c{at}", java.type_of(new)) for at, (_, new, _, _) in enumerate(cases)]
    java.alter(str(tmp_path), "t", *changes)
    expected = [dict(zip(columns, row, strict=True)) for row in java.rows(str(tmp_path), "g", "t")]
    path = tmp_path / "g.db" / "t"
    schema = TableSchema.from_json((path / "schema" / "schema-1").read_bytes())
    store = FileStore(LocalFileIO(), str(path), schema)
    found = printed_rows(store.read_table(store.plan()))
    for at, case in enumerate(cases):
        assert [r[f"c{at}"] for r in found] == [r[f"c{at}"] for r in expected], case

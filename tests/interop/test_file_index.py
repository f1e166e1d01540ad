"""Bloom filters of data files: the same bits as Paimon's Java core 1.4.2, which skips files by those written here."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.filestore.skipping.file_index import FileIndexWriter
from lakelog.paimon.index.file_index import BLOOM_FILTER, read_file_index

COLUMNS = {
    "id": "BIGINT NOT NULL", "t": "TINYINT", "s": "SMALLINT", "i": "INT", "f": "FLOAT", "d": "DOUBLE", "c": "STRING",
    "b": "BYTES", "day": "DATE", "at3": "TIMESTAMP(3)", "at6": "TIMESTAMP(6)", "at9": "TIMESTAMP(9)", "tm": "TIME(3)",
}  # fmt: skip
INDEX = {
    "file-index.bloom-filter.columns": ",".join(COLUMNS),
    **{f"file-index.bloom-filter.{name}.items": "200" for name in COLUMNS},
    "file-index.bloom-filter.c.fpp": "0.01",
}


def rows(count: int) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for i in range(count):
        text = "é日-" * (i % 23) + str(i)
        day = f"{1950 + i % 90}-02-{1 + i % 28:02d}"
        stamp = f"{day}T23:59:{i % 60:02d}"
        out.append(
            (i - 50, i - 60, -i * 300, i << 20, i / 7, -i / 3, text, text.encode(), dt.date.fromisoformat(day),
             f"{stamp}.{i:03d}", f"{stamp}.{i:06d}", f"{stamp}.{i:09d}", dt.time(12, 34, 56, i * 1000))
        )  # fmt: skip
        if i % 9 == 0:
            out[-1] = (i - 50, *[None] * (len(COLUMNS) - 1))
    return out


@pytest.mark.parametrize("threshold", ["1 mb", "1 b"])
def test_the_filters_of_java_have_the_bits_that_are_made_here(java, tmp_path: Path, threshold: str) -> None:
    options = {**INDEX, "bucket": "-1", "file-index.in-manifest-threshold": threshold}
    java.create(str(tmp_path), "t", COLUMNS, options=options)
    java.write(str(tmp_path), "g", "t", rows(120))
    table = connect(warehouse=str(tmp_path)).table("g.t")
    (split,) = table.scan().plan()
    (file,) = split.files
    assert (file.embedded_file_index is not None) == (threshold == "1 mb")
    data = file.embedded_file_index or Path(table.path, "bucket-0", file.extra_files[0]).read_bytes()
    store = table.logical.store
    ours = FileIndexWriter.of(store.schema)
    for batch in store.read_split(split):
        ours.add(batch)
    found = read_file_index(lambda start, length: data[start : start + length])
    assert set(found) == set(COLUMNS)
    for name, kinds in found.items():
        start = kinds[BLOOM_FILTER].start
        assert start is not None
        assert data[start : start + kinds[BLOOM_FILTER].length] == ours.filters[name].to_bytes(), name


@pytest.mark.parametrize("keyed", [True, False])
def test_java_skips_the_files_that_an_index_made_here_excludes(java, tmp_path: Path, keyed: bool) -> None:
    lake = connect(warehouse=str(tmp_path))
    key, bucket = (", primary key (id)", "'bucket' = '1', ") if keyed else ("", "")
    lake.sql(
        f"create table db.t (id bigint, c string{key}) using lakelog tblproperties ({bucket}"
        "'file-index.bloom-filter.columns' = 'id,c', 'file-index.bloom-filter.c.fpp' = '0.0001')"
    )
    table = lake.table("db.t")
    names = [f"name-{i * 7 % 100:03d}" for i in range(0, 100, 2)]
    table.write(pa.table({"id": list(range(0, 100, 2)), "c": names}))
    if keyed:
        table.compact()
    assert len(java.rows_of_files_with(lake.warehouse, "db", "t", "c", names[3])) >= 1
    assert java.rows_of_files_with(lake.warehouse, "db", "t", "c", "name-003") == []
    assert table.scan(filter="c = 'name-003'").to_arrow().num_rows == 0

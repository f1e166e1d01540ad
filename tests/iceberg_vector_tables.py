"""Tables with deletion vectors and Iceberg metadata of version 3, each with a history of its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_tables import make, numbers, write
from lakelog.filestore.commit.request import CommitRequest, IndexChange
from lakelog.filestore.compaction.bucket_vectors import BucketVectors
from lakelog.filestore.compaction.upper_levels import Hits
from lakelog.io.names import new_uuid
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.table.model.dynamic_table import DynamicTable

VERSION_3 = "'metadata.iceberg.format-version' = '3'"
ON = f"{VERSION_3}, 'deletion-vectors.enabled' = 'true'"
WIDE = "'deletion-vectors.bitmap64' = 'true'"


def delete_rows(table: DynamicTable, *ids: int) -> None:
    """Marks rows of a table without a primary key as deleted, as Apache Paimon does it and lakelog does not."""
    store = table.store
    newest = store.latest_snapshot()
    buckets: dict[tuple[bytes, int], BucketVectors] = {}
    for entry in store.live_entries(newest):
        bucket_key = entry.partition, entry.bucket
        if bucket_key not in buckets:
            held = store.vector_files(newest).get(bucket_key, [])
            buckets[bucket_key] = BucketVectors(store.io, store.paths, *bucket_key, held)
        data = store.io.read(store.paths.data_file(*bucket_key, entry.file))
        found = np.flatnonzero(np.isin(pq.read_table(pa.BufferReader(data))["id"].to_numpy(), ids))
        before = buckets[bucket_key].deleted([entry.file.file_name]).get(entry.file.file_name, [])
        positions = np.setdiff1d(found, before)
        if len(positions):
            buckets[bucket_key].delete(Hits(entry.file, positions, positions, pa.record_batch({})))
    changes = [vectors.change(()) for vectors in buckets.values()]
    index = IndexChange(
        tuple(entry for change in changes for entry in change.added),
        frozenset(name for change in changes for name in change.deleted),
        tuple(seen for change in changes for seen in change.seen),
    )
    store.commit(CommitRequest(new_uuid(), 1, "OVERWRITE", index=index, allow_empty=True))


def delete_keys(table: Table, *ids: int) -> None:
    """Writes deletes of keys."""
    kinds = pa.array(["-D"] * len(ids))
    table.write(
        pa.table({"id": pa.array(ids, pa.int32()), "name": pa.nulls(len(ids), pa.string()), "_row_kind": kinds})
    )


def plain_appends(lake: Lake) -> Table:
    """No vectors, and many manifests that are merged."""
    table = make(lake, "id int, name string", options=f"{VERSION_3}, 'manifest.merge-min-count' = '3'")
    for n in range(8):
        write(table, *numbers(n, 2))
    table.compact()
    write(table, *numbers(20, 2))
    return table


def deletes(lake: Lake, more: str = "") -> Table:
    table = make(lake, "id int, name string", options=ON + more)
    write(table, *numbers(0, 40))
    write(table, *numbers(40, 40))
    delete_rows(table.logical, *range(3, 80, 7))
    write(table, *numbers(80, 10))
    delete_rows(table.logical, 5, 6, 45)
    delete_rows(table.logical, *range(85, 90))
    return table


def wide_deletes(lake: Lake) -> Table:
    return deletes(lake, f", {WIDE}")


def updates(lake: Lake) -> Table:
    """Changes of rows replace files, and drop their vectors."""
    table = make(lake, "id int, name string", options=ON)
    for first in (0, 30):
        write(table, *numbers(first, 30))
    delete_rows(table.logical, 3, 33)
    lake.sql("update db.t set name = 'new' where id % 10 = 1")
    delete_rows(table.logical, 4, 34)
    lake.sql("update db.t set name = 'newer' where id < 12")
    table.delete("id in (2, 5)")
    return table


def both_kinds(lake: Lake) -> Table:
    """Vectors of 32 bits, then of 64 bits."""
    table = make(lake, "id int, name string", options=ON)
    write(table, *numbers(0, 20))
    write(table, *numbers(20, 20))
    delete_rows(table.logical, 3, 4)
    lake.sql(f"alter table db.t set tblproperties ({WIDE})")
    table = lake.table("db.t")
    delete_rows(table.logical, 4, 25, 26)
    return table


def partitioned_vectors(lake: Lake) -> Table:
    table = make(lake, "id int, name string, day date, kind string", "partitioned by (day, kind)", ON)
    for day in (1, 2, 3):
        write(table, *numbers(0, 20, day=dt.date(2024, 1, day), kind=None if day == 3 else f"a/b {day}"))
    delete_rows(table.logical, 5)
    delete_rows(table.logical, 6, 7)
    table.drop_partitions([{"day": dt.date(2024, 1, 2)}])
    return table


def buckets(lake: Lake) -> Table:
    table = make(lake, "id int, name string", options=f"{ON}, 'bucket' = '3', 'bucket-key' = 'id'")
    for first in (0, 30):
        write(table, *numbers(first, 30))
    delete_rows(table.logical, *range(1, 60, 4))
    delete_rows(table.logical, *range(2, 60, 4))
    return table


def compacted_deletes(lake: Lake) -> Table:
    """The compaction drops the vectors of the files that it replaces."""
    table = deletes(lake)
    table.compact()
    write(table, *numbers(200, 10))
    delete_rows(table.logical, 203)
    return table


def overwritten_deletes(lake: Lake) -> Table:
    table = deletes(lake)
    write(table, *numbers(0, 10), overwrite=True)
    delete_rows(table.logical, 5)
    return table


def many_deletes(lake: Lake) -> Table:
    table = make(lake, "id int, name string", options=f"{ON}, 'manifest.merge-min-count' = '3'")
    for n in range(6):
        write(table, *numbers(10 * n, 10))
        delete_rows(table.logical, 10 * n + 2)
    return table


def keyed_vectors(lake: Lake, more: str = "") -> Table:
    """Rows on the highest level, newer ones on levels below with vectors above, and on level 0."""
    table = make(lake, "id int, name string, primary key (id)", options=f"{ON}, 'bucket' = '2'{more}")
    write(table, *numbers(0, 600))
    table.compact()
    for word, first in (("new", 100), ("newer", 140), ("newest", 150)):
        write(table, *[{**row, "name": word} for row in numbers(first, 20)])
        table.compact(full=False)
    delete_keys(table, *range(20))
    table.compact(full=False)
    write(table, *numbers(900, 5))
    return table


def wide_keyed(lake: Lake) -> Table:
    return keyed_vectors(lake, f", {WIDE}")


def compacted_keyed(lake: Lake) -> Table:
    table = keyed_vectors(lake)
    table.compact()
    return table


def keyed_vector_partitions(lake: Lake) -> Table:
    columns = "id int, name string, day date, primary key (day, id)"
    table = make(lake, columns, "partitioned by (day)", f"{ON}, 'bucket' = '1'")
    for day in (1, 2):
        write(table, *numbers(0, 300, day=dt.date(2024, 1, day)))
    table.compact()
    write(table, *[{**row, "name": "new"} for row in numbers(7, 5, day=dt.date(2024, 1, 2))])
    table.compact(full=False)
    return table


def evolved_vectors(lake: Lake) -> Table:
    table = deletes(lake)
    for change in ("alter column id type bigint", "rename column name to title", "add column more double first"):
        lake.sql(f"alter table db.t {change}")
    table = lake.table("db.t")
    write(table, {"more": 0.5, "id": 1 << 40, "title": "x"})
    delete_rows(table.logical, 7)
    return table


def rolled_back_vectors(lake: Lake) -> Table:
    table = deletes(lake)
    table.rollback_to(snapshot_id=3)
    write(table, *numbers(500, 5))
    delete_rows(table.logical, 8, 502)
    return table


def rolled_back_vectors_last(lake: Lake) -> Table:
    table = deletes(lake)
    table.rollback_to(snapshot_id=4)
    return table


def tagged_vectors(lake: Lake) -> Table:
    table = make(lake, "id int, name string", options=ON)
    for n in range(5):
        write(table, *numbers(10 * n, 10))
        delete_rows(table.logical, 10 * n + 3, n)
        if n in (1, 3):
            table.create_tag(f"after {n}")
    table.expire_snapshots(retain_max=1)
    return table


def expired_vectors(lake: Lake) -> Table:
    table = keyed_vectors(lake)
    table.expire_snapshots(retain_max=2)
    return table


def upgraded(lake: Lake) -> Table:
    """Metadata of version 2, then of version 3 with vectors."""
    table = make(lake, "id int, name string", options="'deletion-vectors.modifiable' = 'true'")
    for n in range(3):
        write(table, *numbers(10 * n, 10))
    table.create_tag("before")
    lake.sql(f"alter table db.t set tblproperties ({ON})")
    table = lake.table("db.t")
    write(table, *numbers(30, 10))
    delete_rows(table.logical, *range(4, 40, 10))
    return table


VECTOR_TABLES: tuple[Callable[[Lake], Table], ...] = (
    plain_appends,
    deletes,
    wide_deletes,
    updates,
    both_kinds,
    partitioned_vectors,
    buckets,
    compacted_deletes,
    overwritten_deletes,
    many_deletes,
    keyed_vectors,
    wide_keyed,
    compacted_keyed,
    keyed_vector_partitions,
    evolved_vectors,
    rolled_back_vectors,
    rolled_back_vectors_last,
    tagged_vectors,
    expired_vectors,
    upgraded,
)

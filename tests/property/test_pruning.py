"""A pruned plan has the files of the whole plan that match, wherever the ADD and the DELETE of a file lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.metadata.manifest_compaction import merge_manifests
from lakelog.filestore.metadata.manifests import Manifests, ManifestWriter
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.skipping.predicate import And, Compare, In, IsNull, Predicate
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import EMPTY_STATS, DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest import ADD, DELETE, ManifestEntry
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.bucket import row_hashes
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

TEXT, INT = parse_type("STRING"), parse_type("INT")
FIELDS = [("day", TEXT, None), ("id", INT, None), ("part", INT, None)]
OPTIONS = {"bucket": "3", "bucket-key": "id", "manifest.merge-min-count": "3"}
OLD = new_schema(FIELDS, ("day", "id", "part"), ("day",), OPTIONS)
NEW = replace(OLD, id=1, options={**OLD.options, "bucket": "5"})
DAYS = st.sampled_from(["", "a", "b", "é", None])


@dataclass(frozen=True)
class File:
    """A file of one row: its day and id are known without statistics, its part only by them."""

    day: str | None
    id: int
    part: int
    buckets: int
    has_stats: bool

    def entry(self, name: str) -> ManifestEntry:
        key = encode_row([self.id, self.part], [INT, INT])
        stats = SimpleStats(key, key, (0, 0)) if self.has_stats else EMPTY_STATS
        hashed = row_hashes([pa.array([self.id], pa.int32())], [INT])
        bucket = int(np.abs(np.fmod(hashed, np.int32(self.buckets)))[0])
        file = DataFileMeta(name, 1, 1, key, key, stats, level=self.id % 3, creation_time_ms=1)
        return ManifestEntry(ADD, encode_partition([self.day], OLD), bucket, self.buckets, file)


FILES = st.builds(File, DAYS, st.integers(0, 9), st.integers(0, 2), st.sampled_from([3, 5]), st.booleans())


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[File], list[list[ManifestEntry]]]:
    """The files, and the entries of each manifest in the order in which they were committed."""
    files = draw(st.lists(FILES, max_size=20))
    manifests: list[list[ManifestEntry]] = []
    for at, file in enumerate(files):
        entry = file.entry(f"data-{at}")
        manifests.append([entry])
        if draw(st.booleans()):
            # what is deleted may be known with other statistics, and be added again
            gone = replace(replace(file, has_stats=draw(st.booleans())).entry(f"data-{at}"), kind=DELETE)
            manifests.append([gone, entry] if draw(st.booleans()) else [gone])
    joined: list[list[ManifestEntry]] = []
    for entries in manifests:
        if joined and draw(st.booleans()):
            joined[-1] += entries
        else:
            joined.append(list(entries))
    return files, joined


def matches(file: File, day: Predicate | None, ids: Predicate | None, part: Predicate | None) -> bool:
    if isinstance(day, IsNull) and file.day is not None:
        return False
    if isinstance(day, Compare) and (day.value is None or file.day != day.value):
        return False
    if isinstance(ids, In) and file.id not in ids.values:
        return False
    return not (isinstance(part, Compare) and file.has_stats and file.part != part.value)


@given(
    history=histories(),
    day=st.none() | st.just(IsNull("day")) | st.builds(Compare, st.just("day"), st.just("="), DAYS),
    ids=st.none() | st.builds(In, st.just("id"), st.lists(st.integers(0, 10), max_size=3).map(tuple)),
    part=st.none() | st.builds(Compare, st.just("part"), st.just("="), st.integers(0, 2)),
    asked=st.none() | st.frozensets(DAYS, max_size=3),
    buckets=st.none() | st.frozensets(st.integers(0, 4)),
    schema=st.sampled_from([OLD, NEW]),
    cut=st.integers(0, 20),
    is_merged=st.booleans(),
)
def test_a_pruned_plan_has_exactly_the_files_that_match(  # type: ignore[no-untyped-def]
    history, day, ids, part, asked, buckets, schema, cut, is_merged
) -> None:
    files, entries = history
    io, paths = MemoryFileIO(new_uuid()), TablePaths("/t", schema)
    for one in (OLD, NEW):
        io.write(paths.schema_file(one.id), one.to_json())
    manifests, writer = Manifests(io, paths), ManifestWriter(io, paths)
    metas = [writer.write(part) for part in entries]
    base = merge_manifests(metas[:cut], manifests, writer) if is_merged else metas[:cut]
    lists = writer.write_list(base)[0], writer.write_list(metas[cut:])[0]
    writer.flush()
    snapshot = Snapshot(1, 0, *lists, "user", 1, APPEND, 0, 0, 0)

    parts = [p for p in (day, ids, part) if p is not None]
    partitions = None if asked is None else frozenset(encode_partition([d], OLD) for d in asked)
    pruning = Pruning(Schemas(io, paths), And(*parts) if parts else None, partitions, buckets)
    pruned = manifests.live(snapshot, pruning.wants_manifest, pruning.wants_entry, pruning.wants_bucket)

    whole = {e.file.file_name: e for e in manifests.live(snapshot)}
    expected = {
        name
        for name, entry in whole.items()
        if matches(files[int(name[5:])], day, ids, part)
        and (asked is None or files[int(name[5:])].day in asked)
        and (buckets is None or entry.bucket in buckets)
    }
    assert sorted(e.file.file_name for e in pruned) == sorted(expected)
    assert all(whole[e.file.file_name] == e for e in pruned)

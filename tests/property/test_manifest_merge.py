"""Merged manifests have the same live files, whichever blocks are copied and whichever entries are built."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from lakelog.fileformat import avro_file
from lakelog.filestore.metadata import manifest_compaction as manifest_merge
from lakelog.filestore.metadata.manifest_compaction import merge_manifests
from lakelog.filestore.metadata.manifests import Manifests, ManifestWriter
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, DELETE, ManifestEntry, live_files
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

TEXT, INT = parse_type("STRING"), parse_type("INT")
FIELDS = [("day", TEXT, None), ("id", INT, None)]
FILES = st.tuples(st.sampled_from(["a", "b", "é", None]), st.integers(0, 3), st.integers(0, 2), st.integers(0, 12))


@given(
    history=st.lists(st.lists(FILES, min_size=1, max_size=8), min_size=1, max_size=8),
    copied_from=st.integers(1, 6),
    at_once=st.integers(1, 8),
    block=st.sampled_from([1, 400, 64 << 10]),
    full=st.booleans(),
)
def test_merged_manifests_have_the_same_live_files(history, copied_from, at_once, block, full) -> None:  # type: ignore[no-untyped-def]
    options = {"bucket": "4", "manifest.merge-min-count": "2"}
    options["manifest.full-compaction-threshold-size"] = "1 b" if full else "1 gb"
    schema = new_schema(FIELDS, ("day", "id"), ("day",), options)
    io, paths = MemoryFileIO(new_uuid()), TablePaths("/t", schema)
    manifests, writer = Manifests(io, paths), ManifestWriter(io, paths)
    alive: set[object] = set()
    commits: list[list[ManifestEntry]] = []
    for files in history:
        commits.append([])
        for day, bucket, level, name in files:
            # a file that is there is deleted, one that is not is added: at another level it is another entry
            file = DataFileMeta(f"data-{name}", 1, 1, level=level, creation_time_ms=len(commits))
            entry = ManifestEntry(ADD, encode_partition([day], schema), bucket, 4, file)
            is_there = entry.identifier in alive
            alive ^= {entry.identifier}
            commits[-1].append(replace(entry, kind=DELETE) if is_there else entry)
    with patch.object(manifest_merge, "_COPIED_FROM", copied_from), patch.object(avro_file, "_BLOCK_BYTES", block):
        merged = []
        for at in range(0, len(commits), at_once):
            merged += [writer.write(entries) for entries in commits[at : at + at_once]]
            writer.flush()
            merged = merge_manifests(merged, manifests, writer)
            writer.flush()

    for meta in merged:
        entries = manifests.read(meta.file_name)
        assert meta.num_added_files == sum(e.kind == ADD for e in entries)
        assert meta.num_deleted_files == sum(e.kind == DELETE for e in entries)
        assert (meta.min_bucket, meta.max_bucket) == (min(e.bucket for e in entries), max(e.bucket for e in entries))
        levels = [e.file.level for e in entries]
        assert (meta.min_level, meta.max_level) == (min(levels), max(levels))
        assert meta.file_size == io.size(paths.manifest(meta.file_name))
    expected = live_files(e for entries in commits for e in entries)
    found = live_files(e for meta in merged for e in manifests.read(meta.file_name))
    assert found == expected

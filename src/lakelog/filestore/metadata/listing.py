"""The directories of a table's data files, as they lie in the storage: whatever is in them, named or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO, FileStatus

OWN_DIRECTORIES: Final = ("schema", "snapshot", "changelog", "tag", "consumer")
"""Those of the files that each branch has for itself."""
_NOT_DATA: Final = frozenset({"manifest", "index", "statistics", *OWN_DIRECTORIES, "branch", "lakelog"})


def partition_levels(io: FileIO, paths: TablePaths) -> Iterator[list[tuple[str, FileStatus]]]:
    """The directories below a table, a list a level, down to the buckets: (path, status)."""
    schema = paths.schema
    parents = [paths.data_root]
    for depth in range(len(schema.partition_keys) + 1):
        wanted = "bucket-" if depth == len(schema.partition_keys) else f"{schema.partition_keys[depth]}="
        level = [
            (f"{parent}/{status.name}", status)
            for parent in parents
            for status in io.list(parent)
            if status.is_dir and status.name.startswith(wanted) and (depth > 0 or status.name not in _NOT_DATA)
        ]
        yield level
        parents = [path for path, _ in level]


def bucket_directories(io: FileIO, paths: TablePaths) -> Iterator[str]:
    """The directories of the buckets of all partitions."""
    for level in partition_levels(io, paths):
        for directory, status in level:
            if status.name.startswith("bucket-"):
                yield directory

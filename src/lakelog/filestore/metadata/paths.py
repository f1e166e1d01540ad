"""Paths of a table's files (format sheet 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.options.names import file_name_fault
from lakelog.options.option import Options
from lakelog.options.table import DATA_DIRECTORY, INDEX_IN_DATA_DIRECTORY
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.partition import decode_partition, partition_dir
from lakelog.paimon.schema.schema import POSTPONE_BUCKET, TableSchema

MAIN_BRANCH: Final = "main"


@dataclass(frozen=True)
class TablePaths:
    """Paths below the directory ``root`` of a table, for one of its branches.

    Names of branches, tags and consumers come from users. If such a name leads to another directory, it raises
    InvalidRequest. All other names come from metadata and raise Corrupt.
    """

    root: str
    schema: TableSchema
    branch: str = MAIN_BRANCH
    name: str = ""

    @property
    def table(self) -> str:
        """The table in messages: its name, or its directory if it was opened without one."""
        return self.name or self.root

    @property
    def branch_root(self) -> str:
        """The directory of the branch's own schemas, snapshots, tags and consumers; other files are shared."""
        return self.root if self.branch == MAIN_BRANCH else _inside(self.branches, "branch", self.branch)

    @property
    def snapshots(self) -> str:
        """The directory of the snapshots and their hints."""
        return f"{self.branch_root}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return f"{self.snapshots}/snapshot-{snapshot_id}"

    def snapshot_hint(self, name: str) -> str:
        """The hint ``EARLIEST`` or ``LATEST``."""
        return f"{self.snapshots}/{name}"

    @property
    def schemas(self) -> str:
        """The directory of the schema files."""
        return f"{self.branch_root}/schema"

    def schema_file(self, schema_id: int) -> str:
        return f"{self.schemas}/schema-{schema_id}"

    @property
    def tags(self) -> str:
        return f"{self.branch_root}/tag"

    def tag(self, name: str) -> str:
        return _inside(self.tags, "tag", name)

    @property
    def branches(self) -> str:
        """The directory of the branches, below the table's directory."""
        return f"{self.root}/branch"

    @property
    def consumers(self) -> str:
        """The directory of the consumers' positions."""
        return f"{self.branch_root}/consumer"

    def consumer(self, name: str) -> str:
        """The file with the position of a consumer."""
        return _inside(self.consumers, "consumer", name)

    @property
    def changelogs(self) -> str:
        """The directory of the changelogs that outlive their snapshots."""
        return f"{self.branch_root}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """A changelog that outlived its snapshot."""
        return f"{self.changelogs}/changelog-{snapshot_id}"

    @property
    def removals(self) -> str:
        """The directory of the lists of files whose deletion has started."""
        return f"{self.root}/lakelog/removals"

    @property
    def compaction_leases(self) -> str:
        """The directory of the leases of compactors that work on the branch."""
        return f"{self.branch_root}/lakelog/compact"

    def index_file(self, name: str) -> str:
        """An index file: deletion vectors, or the hashes of a bucket's keys."""
        return named_file(f"{self.root}/index", "_FILE_NAME of an index manifest", name)

    def bucket_index_file(self, partition: bytes, bucket: int, name: str, external_path: str | None = None) -> str:
        """An index file of a bucket; with ``index-file-in-data-file-dir`` it is stored with the data files."""
        if external_path is not None:
            return external_path
        if not Options(self.schema.options).need(INDEX_IN_DATA_DIRECTORY):
            return self.index_file(name)
        return named_file(self.bucket_dir(partition, bucket), "_FILE_NAME of an index manifest", name)

    def statistics_file(self, name: str) -> str:
        return named_file(f"{self.root}/statistics", "statistics of a snapshot", name)

    def manifest(self, name: str) -> str:
        """A manifest, a manifest list or an index manifest."""
        return named_file(f"{self.root}/manifest", "name of a manifest or manifest list", name)

    @property
    def iceberg(self) -> str:
        """The directory of the Iceberg metadata."""
        return f"{self.root}/metadata"

    def iceberg_file(self, name: str) -> str:
        """A file of the Iceberg metadata."""
        return named_file(self.iceberg, "location of Iceberg metadata", name)

    @property
    def data_root(self) -> str:
        """The directory of all data files (``data-file.path-directory``). Raises InvalidOption for one outside."""
        inside = Options(self.schema.options).get_typed(DATA_DIRECTORY)
        return f"{self.root}/{inside.rstrip('/')}" if inside else self.root

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """The directory of the data files of a bucket; ``partition`` is the serialised partition row."""
        directory = partition_dir(decode_partition(partition, self.schema), self.schema)
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return f"{self.data_root}/{directory}{name}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """A data file; an external path in its metadata takes precedence."""
        return self.files_of(self.bucket_dir(partition, bucket), file)[0]

    def with_extra_files(self, partition: bytes, bucket: int, file: DataFileMeta) -> tuple[str, ...]:
        """A data file and its extra files, such as its index."""
        return self.files_of(self.bucket_dir(partition, bucket), file)

    def files_of(self, directory: str, file: DataFileMeta) -> tuple[str, ...]:
        """Like ``with_extra_files``, with the directory of the bucket."""
        path = file.external_path or named_file(directory, "_FILE_NAME of a manifest", file.file_name)
        beside = path.rpartition("/")[0]
        return (path, *(named_file(beside, "_EXTRA_FILES of a manifest", name) for name in file.extra_files))


def named_file(directory: str, field: str, name: str) -> str:
    """The path of a file whose name was read from ``field`` of the metadata.

    All paths from such names are built here. Raises Corrupt for a name that leads to another directory.
    """
    why = file_name_fault(name) if isinstance(name, str) else "a file name is text"
    if why:
        raise Corrupt(
            f"metadata refer to the file '{name}' in '{directory}' ({field}): {why}. The file was not touched"
        )
    return f"{directory}/{name}"


def _inside(directory: str, what: str, name: str) -> str:
    path = f"{what}-{name}"
    if why := file_name_fault(path):
        raise InvalidRequest(f"'{name}' cannot be the name of a {what}: {why}")
    return f"{directory}/{path}"

"""Where the files of a table lie (format sheet 1)."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.spec.data_file import DataFileMeta
from lakelog.spec.partition import decode_partition, partition_dir
from lakelog.spec.schema import POSTPONE_BUCKET, TableSchema


@dataclass(frozen=True)
class TablePaths:
    """Paths below the directory ``root`` of a table."""

    root: str
    schema: TableSchema

    @property
    def snapshots(self) -> str:
        """The directory of the snapshots and their hints."""
        return f"{self.root}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return f"{self.snapshots}/snapshot-{snapshot_id}"

    def snapshot_hint(self, name: str) -> str:
        """The hint ``EARLIEST`` or ``LATEST``."""
        return f"{self.snapshots}/{name}"

    @property
    def schemas(self) -> str:
        """The directory of the schema files."""
        return f"{self.root}/schema"

    def schema_file(self, schema_id: int) -> str:
        """A schema file."""
        return f"{self.schemas}/schema-{schema_id}"

    def manifest(self, name: str) -> str:
        """A manifest, a manifest list or an index manifest."""
        return f"{self.root}/manifest/{name}"

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """The directory of the data files of a bucket; ``partition`` is the serialised partition row."""
        inside = self.schema.options.get("data-file.path-directory")
        top = f"{self.root}/{inside}" if inside else self.root
        directory = partition_dir(decode_partition(partition, self.schema), self.schema)
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return f"{top}/{directory}{name}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """A data file; an external path in its meta wins."""
        return file.external_path or f"{self.bucket_dir(partition, bucket)}/{file.file_name}"

"""Where the checkpoint of a stream lies that names no place for it."""

from __future__ import annotations

from lakelog.errors import InvalidRequest
from lakelog.io import scheme_of
from lakelog.table.model.dynamic_table import DynamicTable


def checkpoint_beside(table: DynamicTable, name: str) -> str:
    """A checkpoint in the table's directory, where Spark can reach it. Raises InvalidRequest for an object store."""
    if scheme_of(table.path) not in ("file", "hdfs", "viewfs"):
        raise InvalidRequest(
            f"Spark cannot keep a stream's checkpoint in '{table.path}' by itself: start the stream with "
            f"lake.write_stream(frame, '{table.name}', checkpoint=…), a directory that Spark reaches"
        )
    return f"{table.path}/lakelog/checkpoints/{name}"

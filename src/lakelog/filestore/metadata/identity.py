"""Identity of a table: an id that CREATE assigns and that no later table of the same name has.

The id is an option of the first schema, and later schemas inherit it. ALTER, also Paimon's, copies the options, RENAME
moves the schemas with the directory, and DROP removes them. A table without an id, created by Paimon or an early
version, is identified by the creation time of its first schema.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lakelog.errors import NotFound, TableReplaced, Unavailable
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.metadata.table_memory import TableMemory, memory_of
from lakelog.io.clock import monotonic_s
from lakelog.io.machine import machine_name
from lakelog.io.storage.file_io import FileIO
from lakelog.options.table import TABLE_ID
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import LastRead

IDENTITY_CHECK_S: Final = 5.0
"""Seconds between two identity checks of long-running work that decides nothing."""
_SEEN: dict[tuple[int, str], float] = {}
"""(process, key) → time of the last successful check."""


@dataclass(frozen=True)
class Identity:
    """The identity of an opened table; ``paths`` have its schema at that time. Picklable."""

    io: FileIO
    paths: TablePaths
    name: str
    _schemas: LastRead[TableSchema] = field(
        default_factory=partial(LastRead, TableSchema.from_json, 2), compare=False, repr=False
    )

    @property
    def text(self) -> str:
        """The text that positions and decisions store. Reads the first schema if the table has no id."""
        return self.id or f"made-{self._read(self._first).time_millis}"

    @property
    def key(self) -> str:
        """The key of per-process caches: the table's directory and id. Reads nothing."""
        return f"{self.paths.root}#{self.id or self.paths.schema.time_millis}"

    @property
    def memory(self) -> TableMemory:
        """What this process remembers of the table's branch; no later table of the same name has it."""
        return memory_of(f"{self.paths.branch_root}#{self.id or self.paths.schema.time_millis}")

    def check(self, within_s: float = 0.0) -> None:
        """Raises TableReplaced if the table was renamed or dropped, with or without a new table of its name.

        Costs one small read, or none if this process has checked within ``within_s`` seconds. With ``within_s``,
        unavailable storage raises nothing.
        """
        key = os.getpid(), self.key
        if within_s and monotonic_s() < _SEEN.get(key, float("-inf")) + within_s:
            return
        try:
            schema = self._found()
        except Unavailable:
            if within_s:
                return
            raise
        if schema is None and self.io.snapshot_owner is not None:
            return  # the server may store the schemas elsewhere; it checks the table at commit
        if schema is None:
            raise TableReplaced(
                f"table {self.name} is no longer in '{self.paths.root}': it was dropped or renamed since it was "
                f"opened. Nothing was written; open it again by its current name{self._if_local()}"
            )
        if not self._is_same(schema):
            raise TableReplaced(
                f"table {self.name} was dropped or renamed, and another table was created in '{self.paths.root}' "
                "since it was opened. Nothing was written; open it again to work with the new one"
            )
        _SEEN[key] = monotonic_s()

    def _if_local(self) -> str:
        """What else to do, if this process may be on another machine than the one that opened the table."""
        if "://" in self.paths.root:
            return ""
        return (
            f". If it was opened on another machine than this one, {machine_name()}, use a warehouse that all machines "
            "reach by the same address: an object store, HDFS, or a directory that each of them mounts"
        )

    @contextlib.contextmanager
    def own_directory(self) -> Iterator[FileIO]:
        """Context with the table's storage, its directory held. Raises TableReplaced.

        Use it to delete files whose names the next table at this path may use. A process may be suspended between the
        check and a deletion; where the storage can hold a directory, no file of the next table is deleted.
        """
        with contextlib.ExitStack() as stack:
            held = self.io
            with contextlib.suppress(NotFound):
                held = stack.enter_context(self.io.hold(self.paths.root))
            replace(self, io=held).check()
            yield held

    def is_distinguishable(self) -> bool:
        """Returns whether the table now at this path can distinguish snapshots of this table from its own."""
        schema = self._found()
        return self.id is not None and schema is not None and TABLE_ID in schema.options

    @property
    def id(self) -> str | None:
        """The id that CREATE assigned; None for a table without one."""
        return self.paths.schema.options.get(TABLE_ID)

    @property
    def _first(self) -> str:
        return replace(self.paths, branch=MAIN_BRANCH).schema_file(0)

    def _found(self) -> TableSchema | None:
        """The first schema file, or the opened one if the table has no id; fast-forward may have removed that one.

        A suspended ALTER of an earlier table may have created a later file here.
        """
        current = self.paths.schema_file(self.paths.schema.id)
        for path in (current,) if self.id is None else (self._first, current):
            with contextlib.suppress(NotFound):
                return self._read(path)
        return None

    def _read(self, path: str) -> TableSchema:
        return self._schemas.read(self.io, path)

    def _is_same(self, schema: TableSchema) -> bool:
        """Returns whether a schema found at the path belongs to this table."""
        if self.id is not None or TABLE_ID in schema.options:
            return schema.options.get(TABLE_ID) == self.id
        return schema.time_millis == self.paths.schema.time_millis

"""Copies of the files of a table from one storage to another, with their sizes and checksums."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import Corrupt, LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.gc.reachability import GcRoot, ReachableFiles
from lakelog.io.metrics import METER
from lakelog.io.storage.file_io import FileIO
from lakelog.options.names import directory_fault, visible
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState
from lakelog.table.rejected.entries import RejectedEntries

_THREADS: Final = 8
_CHUNK_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class CopiedFile(JsonRecord):
    """Size in bytes and SHA-256 of a copied file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class FileCopies:
    """Copies below ``target_root`` of files below ``source_root``; a name is a path relative to both."""

    source: FileIO
    source_root: str
    target: FileIO
    target_root: str

    def copy(self, names: Collection[str], expected: Mapping[str, CopiedFile] | None = None) -> dict[str, CopiedFile]:
        """Copies files in parallel and returns what was copied. Files never change, so a whole copy is kept.

        ``expected`` are the sizes and checksums that the files must have. Raises NotFound for a missing file, Corrupt
        for a file or a copy with other bytes than expected. After an error some files are copied.
        """
        if not names:
            return {}
        ordered = sorted(names)
        with (
            METER.step("copy", "bytes", place=self.target_root) as step,
            ThreadPoolExecutor(min(_THREADS, len(ordered)), "lakelog-copy") as threads,
        ):
            sizes = list(threads.map(lambda name: self.source.size(f"{self.source_root}/{name}"), ordered))
            step.total = sum(sizes)
            contents = [(expected or {}).get(name) for name in ordered]
            copies: dict[str, CopiedFile] = {}
            for name, copied in zip(ordered, threads.map(self._copy_file, ordered, sizes, contents), strict=True):
                copies[name] = copied
                step.advance(copied.size)
            return copies

    def has(self, name: str) -> bool:
        """True if the target has the file, as large as the source has it or had it."""
        target = f"{self.target_root}/{name}"
        try:
            size = self.target.size(target)
        except NotFound:
            return False
        try:
            return size == self.source.size(f"{self.source_root}/{name}")
        except NotFound:  # expired there; who needs it finds out
            return True

    def check(self, expected: Mapping[str, CopiedFile]) -> None:
        """Reads files of the target and compares them. Raises Corrupt, NotFound naming the first bad one."""
        total = sum(copied.size for copied in expected.values())
        with METER.step("check", "bytes", total, place=self.target_root) as step:
            for name, copied in sorted(expected.items()):
                if self._checksum(self.target, f"{self.target_root}/{name}") != copied:
                    raise Corrupt(f"'{self.target_root}/{name}' has other bytes than those that were copied")
                step.advance(copied.size)

    def _copy_file(self, name: str, size: int, expected: CopiedFile | None) -> CopiedFile:
        source, target = f"{self.source_root}/{name}", f"{self.target_root}/{name}"
        if expected is not None and size != expected.size:
            raise Corrupt(f"'{source}' has {size:,} bytes, and {expected.size:,} were copied: use an older point")
        is_there = self._has(target, size)
        copied = self._checksum(self.target, target) if is_there else self._write(source, target)
        if is_there and expected is not None and copied != expected:  # a file of this name that a crash has left
            copied = self._write(source, target)
        if expected is not None and copied != expected:
            self.target.delete(target)
            raise Corrupt(f"'{source}' has other bytes than those that were copied: use an older point")
        if copied.size != size or self.target.size(target) != size:
            raise Corrupt(f"'{target}' has not the {size:,} bytes of '{source}': copy again")
        return copied

    def _has(self, path: str, size: int) -> bool:
        try:
            return self.target.size(path) == size
        except NotFound:
            return False

    def _checksum(self, io: FileIO, path: str) -> CopiedFile:
        digest, size = hashlib.sha256(), 0
        with io.open_input(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return CopiedFile(size, digest.hexdigest())

    def _write(self, source: str, target: str) -> CopiedFile:
        digest, size = hashlib.sha256(), 0
        try:
            with self.source.open_input(source) as read, self.target.open_output(target) as write:
                while chunk := read.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size += write.write(chunk)
        except BaseException:
            with contextlib.suppress(LakelogError):
                self.target.delete(target)
            raise
        return CopiedFile(size, digest.hexdigest())


@dataclass(frozen=True)
class StateFiles:
    """The files that states of a table need, as names relative to its directory."""

    table: DynamicTable
    _references: ReachableFiles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_references", self.table.store.references)

    def of(self, root: GcRoot, state: LogState | None = None) -> set[str]:
        """The files of a snapshot, and those of the rejected rows in its log state.

        Raises NotFound if the snapshot has expired, UnsupportedFeature for a file outside of the table's directory.
        """
        paths = self._references.metadata_of(root) | self._references.data_of(root)
        return {self._name(path) for path in paths} | (set() if state is None else self._rejected(state))

    def _rejected(self, state: LogState) -> set[str]:
        entries = RejectedEntries(self.table)
        files, lists, _ = entries.of_states([state])
        paths = [*(entries.path(file) for file in files), *(f"{entries.root}/{name}" for name in lists)]
        return {self._name(path) for path in paths if self.table.io.exists(path)}  # old ones expire meanwhile

    def _name(self, path: str) -> str:
        root = f"{self.table.path}/"
        if not path.startswith(root):
            raise UnsupportedFeature(
                f"table {self.table.name} has the file '{path}' outside of its directory, which a copy cannot have: "
                "unset 'data-file.external-paths' and compact the table"
            )
        return path.removeprefix(root)


def check_file_name(name: str, where: str) -> None:
    """Raises Corrupt for a name in ``where`` that leads out of a directory."""
    if fault := directory_fault(name):
        raise Corrupt(f"'{where}' names the file '{visible(name)}': {fault}. Nothing was copied")

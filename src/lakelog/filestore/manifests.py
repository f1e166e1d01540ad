"""Reads and writes manifests and manifest lists, and replays them to the live files (format sheet 4)."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakelog.filestore.paths import TablePaths
from lakelog.format.avro_file import read_records, write_records
from lakelog.io.file_io import FileIO
from lakelog.io.names import new_uuid
from lakelog.options.option import Options
from lakelog.options.table import MANIFEST_COMPRESSION
from lakelog.spec.manifest import (
    ADD,
    INDEX_MANIFEST_SCHEMA,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    entry_from_record,
    entry_to_record,
    file_meta_from_record,
    file_meta_to_record,
    index_entry_to_record,
    live_files,
)
from lakelog.spec.partition import decode_partition, partition_types
from lakelog.spec.snapshot import Snapshot
from lakelog.spec.stats import merge_bounds

MetaTest = Callable[[ManifestFileMeta], bool]
EntryTest = Callable[[ManifestEntry], bool]


class _Cache:
    """What was read, by storage and path; names carry a UUID, so a path never changes its content."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[FileIO, str], tuple[Any, ...]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[FileIO, str]) -> tuple[Any, ...] | None:
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: tuple[FileIO, str], value: tuple[Any, ...]) -> None:
        with self._lock:
            if key in self._held or len(value) > self._limit // 2:
                return
            self._held[key] = value
            self._size += len(value) + 1
            while self._size > self._limit:
                self._size -= len(self._held.popitem(last=False)[1]) + 1


_CACHE: Final = _Cache(limit=200_000)
"""Entries of manifests and lists read or written by this process; about 1 kB each."""


@dataclass(frozen=True)
class Manifests:
    """The manifests of one table."""

    io: FileIO
    paths: TablePaths

    def read(self, name: str) -> tuple[ManifestEntry, ...]:
        """The entries of one manifest, in order. Raises NotFound, Corrupt, UnsupportedFeature."""
        return self._cached(name, entry_from_record)

    def read_list(self, name: str) -> tuple[ManifestFileMeta, ...]:
        """The manifests in one manifest list, in order."""
        return self._cached(name, file_meta_from_record)

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of a snapshot: base list, then delta list."""
        return [*self.read_list(snapshot.base_manifest_list), *self.read_list(snapshot.delta_manifest_list)]

    def live(
        self, snapshot: Snapshot | None, in_manifest: MetaTest | None = None, wanted: EntryTest | None = None
    ) -> list[ManifestEntry]:
        """The files alive in a snapshot.

        ``in_manifest`` skips manifests, ``wanted`` entries; both must answer alike for the ADD and the DELETE of one
        file, so they may look at partition, bucket and key range, not at the kind.
        """
        if snapshot is None:
            return []
        return live_files(self._entries(self.manifests_of(snapshot), in_manifest, wanted))

    def live_of_list(self, name: str) -> list[ManifestEntry]:
        """The files alive after the manifests of one manifest list."""
        return live_files(self._entries(self.read_list(name), None, None))

    def delta(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """What one snapshot added and deleted."""
        return list(self._entries(self.read_list(snapshot.delta_manifest_list), None, None))

    def changelog(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The changelog files of one snapshot; none when it has no changelog."""
        name = snapshot.changelog_manifest_list
        return [] if name is None else list(self._entries(self.read_list(name), None, None))

    def _entries(
        self, metas: Iterable[ManifestFileMeta], in_manifest: MetaTest | None, wanted: EntryTest | None
    ) -> Iterator[ManifestEntry]:
        for meta in metas:
            if in_manifest is None or in_manifest(meta):
                entries = self.read(meta.file_name)
                yield from entries if wanted is None else filter(wanted, entries)

    def read_records(self, name: str, decode: Callable[[Any], Any]) -> tuple[Any, ...]:
        """The decoded records of any metadata file of the manifest directory, in order."""
        return self._cached(name, decode)

    def _cached(self, name: str, decode: Callable[[Any], Any]) -> tuple[Any, ...]:
        key = (self.io, self.paths.manifest(name))
        found = _CACHE.get(key)
        if found is None:
            found = tuple(decode(record) for record in read_records(self.io.read(key[1])))
            _CACHE.put(key, found)
        return found


@dataclass
class ManifestWriter:
    """Writes the manifests of one commit; names carry one UUID and a counter. Remembers them, to delete what lost."""

    io: FileIO
    paths: TablePaths
    written: list[str] = field(default_factory=list)
    _uuid: str = field(default_factory=new_uuid)
    _number: Iterator[int] = field(default_factory=itertools.count)

    def write(self, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        """Writes entries as a new manifest."""
        name = f"manifest-{self._uuid}-{next(self._number)}"
        size = self._put(name, MANIFEST_SCHEMA, [entry_to_record(e) for e in entries])
        _CACHE.put((self.io, self.paths.manifest(name)), tuple(entries))
        schema = self.paths.schema
        partitions = [decode_partition(p, schema) for p in {e.partition for e in entries}]
        added = sum(e.kind == ADD for e in entries)
        return ManifestFileMeta(
            name,
            size,
            added,
            len(entries) - added,
            merge_bounds(partitions, partition_types(schema)),
            schema.id,
            min(e.bucket for e in entries),
            max(e.bucket for e in entries),
            min(e.file.level for e in entries),
            max(e.file.level for e in entries),
        )

    def write_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Writes a manifest list; returns its name and size."""
        name = f"manifest-list-{self._uuid}-{next(self._number)}"
        size = self._put(name, MANIFEST_LIST_SCHEMA, [file_meta_to_record(m) for m in metas])
        _CACHE.put((self.io, self.paths.manifest(name)), tuple(metas))
        return name, size

    def write_index(self, entries: Sequence[IndexManifestEntry]) -> str:
        """Writes the complete list of index files as a new index manifest; returns its name."""
        name = f"index-manifest-{self._uuid}-{next(self._number)}"
        self._put(name, INDEX_MANIFEST_SCHEMA, [index_entry_to_record(e) for e in entries])
        return name

    def _put(self, name: str, schema: dict[str, Any], records: list[dict[str, Any]]) -> int:
        compression = Options(self.paths.schema.options).need(MANIFEST_COMPRESSION)
        data = write_records(schema, records, compression)
        self.written.append(name)
        self.io.write(self.paths.manifest(name), data)
        return len(data)

"""Reads and writes manifests and manifest lists, and replays them to the live files (format sheet 4)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Final

from cachetools import LRUCache

from lakelog.fileformat.avro_file import Block, read_blocks, read_records, write_records
from lakelog.filestore.metadata.manifest_columns import BucketTest, Part, decode_manifest, manifest_meta, written_parts
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.options.commit import MANIFEST_COMPRESSION
from lakelog.options.option import Options
from lakelog.paimon.metadata.manifest import (
    DELETE,
    INDEX_MANIFEST_SCHEMA,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    entry_to_record,
    file_meta_from_record,
    file_meta_to_record,
    index_entry_from_record,
    index_entry_to_record,
    live_files,
)
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import checked, parsing, read_as

CacheKey = tuple[FileIO, str]
"""(storage, path); names contain a UUID, so the content of a path never changes."""


class ManifestCache:
    """LRU cache of decoded manifests and manifest lists. Thread-safe.

    All tables of a process share it, so that each handle of a table benefits from the reads of others.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._held: LRUCache[CacheKey, tuple[Any, int]] = LRUCache(limit, getsizeof=itemgetter(1))

    @property
    def size(self) -> int:
        return int(self._held.currsize)

    def get(self, key: CacheKey) -> Any | None:
        """The cached value of a key, or None."""
        with self._lock:
            return self._held.get(key, (None, 0))[0]

    def takes(self, nbytes: int) -> bool:
        """Returns whether a value of this size is cached; larger values would evict half of the others."""
        return nbytes <= self.limit // 2

    def put(self, key: CacheKey, value: Any, nbytes: int) -> None:
        """Caches a value of about ``nbytes``."""
        with self._lock:
            if self.takes(nbytes):
                self._held[key] = (value, nbytes)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


MANIFEST_CACHE: Final = ManifestCache(limit=64 << 20)


MetaTest = Callable[[ManifestFileMeta], bool]
EntryTest = Callable[[ManifestEntry], bool]
_THREADS: Final = 8
"""Manifests read in parallel; the threads wait for storage, and decoding releases the GIL."""
_WAITING_BYTES: Final = 16 << 20
"""Bytes of manifests that wait in memory to be written together."""
_WHOLE_BYTES: Final = 3000
"""Approximate memory of a live file."""
_RECORD_BYTES: Final = 1500
"""Approximate memory of one decoded record of a manifest list or index manifest."""
HASH: Final = "HASH"
DELETION_VECTORS: Final = "DELETION_VECTORS"


@dataclass(frozen=True)
class Manifests:
    """The manifests of one table."""

    io: FileIO
    paths: TablePaths

    def read(self, name: str) -> tuple[ManifestEntry, ...]:
        """The entries of one manifest, in order. Raises NotFound, Corrupt, UnsupportedFeature."""
        return tuple(self._wanted(name, None, None))

    def read_list(self, name: str) -> tuple[ManifestFileMeta, ...]:
        """The manifests in one manifest list, in order; none without a list (``snapshots.empty_commit``)."""
        return self.read_records(name, file_meta_from_record) if name else ()

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """All manifests of a snapshot: base list, then delta list."""
        return [*self.read_list(snapshot.base_manifest_list), *self.read_list(snapshot.delta_manifest_list)]

    def live(
        self,
        snapshot: Snapshot | None,
        in_manifest: MetaTest | None = None,
        wanted: EntryTest | None = None,
        in_bucket: BucketTest | None = None,
    ) -> list[ManifestEntry]:
        """The live files of a snapshot.

        ``in_manifest`` skips manifests and ``in_bucket`` whole buckets before their entries are built. Both must return
        the same for the ADD and the DELETE of one file. ``wanted`` filters added files only, because a DELETE may have
        other statistics. Several threads call them concurrently.
        """
        if snapshot is None:
            return []
        metas = self.manifests_of(snapshot)
        files = self._whole(metas, may_build=in_bucket is None)
        if files is None:
            return list(live_files(self._entries(metas, in_manifest, wanted, in_bucket)).values())
        if in_bucket is not None:
            places = {(e.partition, e.bucket, e.total_buckets) for e in files}
            chosen = {place for place in places if in_bucket(*place)}
            files = [e for e in files if (e.partition, e.bucket, e.total_buckets) in chosen]
        return [e for e in files if wanted is None or wanted(e)]

    def _whole(self, metas: Sequence[ManifestFileMeta], may_build: bool) -> Collection[ManifestEntry] | None:
        """All live files of a small table, by the difference to those of the snapshot that was read last.

        None for a large table, and without ``may_build`` if its manifests do not continue those that were read last.
        """
        names = tuple(meta.file_name for meta in metas)
        key = self.io, f"{self.paths.root} live files"
        last: tuple[tuple[str, ...], dict[tuple[object, ...], ManifestEntry]] | None = MANIFEST_CACHE.get(key)
        if last is not None and last[0] == names:
            return last[1].values()
        follows = last is not None and names[: len(last[0])] == last[0]
        if not (follows or may_build) or not MANIFEST_CACHE.takes(_WHOLE_BYTES * sum(m.num_added_files for m in metas)):
            return None
        if last is not None and follows:
            files = live_files(self._entries(metas[len(last[0]) :]), last[1])
        else:
            files = live_files(self._entries(metas))
        MANIFEST_CACHE.put(key, (names, files), _WHOLE_BYTES * (1 + len(files)) + sum(map(len, names)))
        return files.values()

    def live_of_list(self, name: str) -> list[ManifestEntry]:
        """The live files after the manifests of one manifest list."""
        return list(live_files(self._entries(self.read_list(name))).values())

    def delta(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The entries that one snapshot added and deleted."""
        return list(self._entries(self.read_list(snapshot.delta_manifest_list)))

    def changelog(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The changelog files of one snapshot; empty if it has no changelog."""
        name = snapshot.changelog_manifest_list
        return [] if name is None else list(self._entries(self.read_list(name)))

    def _entries(
        self,
        metas: Iterable[ManifestFileMeta],
        in_manifest: MetaTest | None = None,
        wanted: EntryTest | None = None,
        in_bucket: BucketTest | None = None,
    ) -> Iterator[ManifestEntry]:
        """The accepted entries of manifests, in order; manifests outside of the cache are read in parallel."""
        names = [m.file_name for m in metas if in_manifest is None or in_manifest(m)]
        missing = sum(MANIFEST_CACHE.get(self._key(name)) is None for name in names)
        read = partial(self._wanted, wanted=wanted, in_bucket=in_bucket)
        if missing < 2:
            yield from itertools.chain.from_iterable(map(read, names))
            return
        with ThreadPoolExecutor(min(missing, _THREADS), thread_name_prefix="manifests") as threads:
            yield from itertools.chain.from_iterable(threads.map(read, names))

    def _wanted(self, name: str, wanted: EntryTest | None, in_bucket: BucketTest | None) -> list[ManifestEntry]:
        parts = (part.entries(in_bucket) for part in self.parts(name))
        return [e for part in parts for e in part if wanted is None or e.kind == DELETE or wanted(e)]

    def blocks(self, name: str) -> tuple[Block, ...] | None:
        """The uncompressed blocks of one manifest; None if another writer's manifest has different fields."""
        return read_as(self.io, self.paths.manifest(name), lambda data: read_blocks(data, MANIFEST_SCHEMA))

    def parts(self, name: str) -> Iterator[Part]:
        """The parts of one manifest, cached if they fit; otherwise each is released before the next one is decoded."""
        key = self._key(name)
        parts: tuple[Part, ...] | None = MANIFEST_CACHE.get(key)
        if parts is not None:
            yield from parts
            return
        held: list[Part] = []
        size = 0
        decoded = decode_manifest(self.io.read(key[1]))
        while True:
            with parsing(key[1]):
                part = next(decoded, None)
            if part is None:
                break
            size += part.nbytes
            if MANIFEST_CACHE.takes(size):
                held.append(part)
            else:
                held.clear()
            yield part
        MANIFEST_CACHE.put(key, tuple(held), size)

    def read_records(self, name: str, decode: Callable[[Any], Any]) -> tuple[Any, ...]:
        """The decoded records of any metadata file of the manifest directory, in order."""
        key = self._key(name)
        records: tuple[Any, ...] | None = MANIFEST_CACHE.get(key)
        if records is None:
            records = read_as(*key, lambda data: tuple(checked(decode(record)) for record in read_records(data)))
            MANIFEST_CACHE.put(key, records, _RECORD_BYTES * (1 + len(records)))
        return records

    def _key(self, name: str) -> tuple[FileIO, str]:
        return self.io, self.paths.manifest(name)


@dataclass
class ManifestWriter:
    """Writes the manifests of one commit; names contain one UUID and a counter. Tracks them for cleanup.

    Files wait in memory and are written together; ``flush`` makes all of them durable, before a snapshot names them.
    """

    io: FileIO
    paths: TablePaths
    written: list[str] = field(default_factory=list)
    _waiting: dict[str, bytes] = field(default_factory=dict)
    _uuid: str = field(default_factory=new_uuid)
    _number: Iterator[int] = field(default_factory=itertools.count)

    def write(self, entries: Sequence[ManifestEntry], blocks: Sequence[Block] = ()) -> ManifestFileMeta:
        """Writes entries as a new manifest, after ``blocks`` of others (see ``Manifests.blocks``)."""
        name = f"manifest-{self._uuid}-{next(self._number)}"
        data = self._put(name, MANIFEST_SCHEMA, [entry_to_record(e) for e in entries], blocks)
        # the next plan and the next commit read it
        parts = written_parts(entries, data, bool(blocks))
        MANIFEST_CACHE.put((self.io, self.paths.manifest(name)), parts, sum(part.nbytes for part in parts))
        return manifest_meta(name, len(data), parts, self.paths.schema)

    def write_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Writes a manifest list; returns its name and size."""
        name = f"manifest-list-{self._uuid}-{next(self._number)}"
        size = len(self._put(name, MANIFEST_LIST_SCHEMA, [file_meta_to_record(m) for m in metas]))
        MANIFEST_CACHE.put((self.io, self.paths.manifest(name)), tuple(metas), _RECORD_BYTES * (1 + len(metas)))
        return name, size

    def write_index(self, entries: Sequence[IndexManifestEntry]) -> str:
        """Writes the complete list of index files as a new index manifest; returns its name."""
        name = f"index-manifest-{self._uuid}-{next(self._number)}"
        self._put(name, INDEX_MANIFEST_SCHEMA, [index_entry_to_record(e) for e in entries])
        return name

    def flush(self) -> None:
        """Writes the waiting files. Raises Unavailable; some of them may exist then."""
        files, self._waiting = self._waiting, {}
        self.io.write_all(files)

    def _put(
        self, name: str, schema: dict[str, Any], records: list[dict[str, Any]], blocks: Sequence[Block] = ()
    ) -> bytes:
        compression = Options(self.paths.schema.options).need(MANIFEST_COMPRESSION)
        data = write_records(schema, records, compression, blocks)
        self.written.append(name)
        self._waiting[self.paths.manifest(name)] = data
        if sum(map(len, self._waiting.values())) > _WAITING_BYTES:
            self.flush()
        return data


@dataclass(frozen=True)
class IndexManifests:
    """The index files of the snapshots of one table."""

    manifests: Manifests

    def entries(self, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
        """All index files of a snapshot; unlike a data manifest, an index manifest is complete."""
        if snapshot is None or snapshot.index_manifest is None:
            return []
        return list(self.manifests.read_records(snapshot.index_manifest, index_entry_from_record))

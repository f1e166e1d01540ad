"""Writes the manifests of a commit and builds the snapshot that references them (format sheet 2, 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakelog.filestore.commit.request import CommitRequest, IndexChange, Overwrite
from lakelog.filestore.metadata.manifest_compaction import merge_manifests, rewrite_manifests
from lakelog.filestore.metadata.manifests import HASH, IndexManifests, Manifests, ManifestWriter
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.io import clock
from lakelog.options.table import TABLE_ID
from lakelog.paimon.metadata.manifest import ADD, IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot


@dataclass(frozen=True)
class NextSnapshot:
    """Builds the snapshot after ``latest``, which is not visible yet."""

    manifests: Manifests
    writer: ManifestWriter

    def make(
        self,
        request: CommitRequest,
        entries: Sequence[ManifestEntry],
        changelog: Sequence[ManifestEntry],
        latest: Snapshot | None,
    ) -> Snapshot:
        """Writes manifests, manifest lists and the index manifest; returns the snapshot with their names.

        Raises as ``request.prepare``.
        """
        properties = dict(request.properties)
        if request.prepare is not None:
            properties.update(request.prepare(latest))
        table_id = self.manifests.paths.schema.options.get(TABLE_ID)
        if table_id is not None:
            properties[TABLE_ID] = table_id
        before = [] if latest is None else self.manifests.manifests_of(latest)
        merged = rewrite_manifests if request.rewrite_manifests else merge_manifests
        base, base_size = self.writer.write_list(merged(before, self.manifests, self.writer))
        delta, delta_size = self._list_of(entries)
        changes, changes_size = self._list_of(changelog) if changelog else (None, None)
        rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
        watermarks = [w for w in (request.watermark, latest.watermark if latest else None) if w is not None]
        snapshot = Snapshot(
            id=1,
            schema_id=Schemas(self.manifests.io, self.manifests.paths).newest_id(latest.schema_id if latest else 0),
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changes,
            changelog_manifest_list_size=changes_size,
            changelog_record_count=sum(e.file.row_count for e in changelog) if changelog else None,
            index_manifest=self._index(request, latest),
            commit_user=request.user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_millis=clock.now_ms(),
            total_record_count=rows,
            delta_record_count=rows,
            watermark=max(watermarks, default=None),
            statistics=request.statistics,
            properties=properties or None,
            next_row_id=0,
        )
        self.writer.flush()
        return snapshot if latest is None else _after(snapshot, latest)

    def _list_of(self, entries: Sequence[ManifestEntry]) -> tuple[str, int]:
        return self.writer.write_list([self.writer.write(entries)] if entries else [])

    def _index(self, request: CommitRequest, latest: Snapshot | None) -> str | None:
        named = None if latest is None else latest.index_manifest
        if not request.index and (named is None or request.overwrite is None):
            return named
        before = IndexManifests(self.manifests).entries(latest)
        after = next_index(before, request.index, request.overwrite, self.manifests.paths.schema.is_keyed)
        if after == before:
            return named
        return self.writer.write_index(after) if after else None


def _after(snapshot: Snapshot, latest: Snapshot) -> Snapshot:
    """The snapshot as the successor of ``latest``, with its inherited fields."""
    schema_id = max(snapshot.schema_id, latest.schema_id)
    inherited = latest.statistics if schema_id == latest.schema_id else None
    return replace(
        snapshot,
        id=latest.id + 1,
        schema_id=schema_id,
        time_millis=max(snapshot.time_millis, latest.time_millis),
        total_record_count=(latest.total_record_count or 0) + (snapshot.delta_record_count or 0),
        statistics=inherited if snapshot.statistics is None else snapshot.statistics,
        next_row_id=latest.next_row_id or 0,
    )


def next_index(
    before: Iterable[IndexManifestEntry], change: IndexChange, overwrite: Overwrite | None, is_keyed: bool
) -> list[IndexManifestEntry]:
    """The index files after a commit. Pure.

    Removed are the files of overwritten partitions, the files that the change names, and files whose bucket has a new
    file of a kind that is unique per bucket.
    """
    once = {_bucket_of(e) for e in change.added if e.index_type == HASH or is_keyed}
    kept = [
        e
        for e in before
        if not (overwrite is not None and overwrite.replaces(e.partition, e.file_name))
        and e.file_name not in change.deleted
        and _bucket_of(e) not in once
    ]
    return [*kept, *change.added]


def _bucket_of(entry: IndexManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.index_type

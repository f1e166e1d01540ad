"""Makes one Iceberg snapshot: its manifests, from those of its parent, and its manifest list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError
from lakelog.filestore.iceberg.data_files import ExportedFiles
from lakelog.filestore.iceberg.deletion_vectors import ExportedVectors, puffin_locations
from lakelog.filestore.iceberg.manifests import (
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    Draft,
    Entry,
    IcebergFiles,
    Key,
    ManifestRecord,
    key_of,
)
from lakelog.filestore.iceberg.name_mapping import NameMapping
from lakelog.filestore.iceberg.schemas import Json, iceberg_schema
from lakelog.filestore.iceberg.table_metadata import COMMIT, LEFT_OUT, SHOWN, IcebergSnapshot, commit_text
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.options.commit import MANIFEST_MERGE_COUNT
from lakelog.options.option import Options
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.schema.schema import TableSchema

_MERGED_BYTES: Final = 8 << 20
"""Manifests below this size are merged once there are many."""


def schemas_json(schemas: Schemas, current: TableSchema, needed: Collection[int]) -> tuple[Json, ...]:
    """All schemas up to the current one; one that Iceberg cannot express and that is not needed is left out."""
    out = []
    for schema in schemas.own(range(current.id + 1)):
        try:
            out.append(iceberg_schema(schema))
        except LakelogError:
            if schema.id == current.id or schema.id in needed:
                raise
    return tuple(out)


@dataclass(frozen=True)
class SnapshotMaker:
    """Makes the Iceberg snapshots of one table; their files wait in ``files``."""

    exported: ExportedFiles
    files: IcebergFiles

    def make(
        self,
        snapshot: Snapshot,
        parent: IcebergSnapshot | None,
        first_row_id: int | None,
        current: TableSchema | None = None,
    ) -> IcebergSnapshot:
        """Makes a snapshot; ``current`` is the schema of the table if it is the newest one.

        Raises UnsupportedFeature if Iceberg's readers would not find its rows.
        """
        written = self.exported.schemas.get(snapshot.schema_id)
        live = self.exported.manifests.live(snapshot)
        picked = self.exported.pick(live, written)
        self._check(picked, snapshot, written, current)
        draft = Draft(snapshot.id, written, first_row_id)
        data_files = {self.exported.location(e): e for e in picked}
        vectors = ExportedVectors(self.exported.manifests, self.files)
        vector_files = vectors.of(snapshot, data_files)
        manifests, before = self._read_parent(parent, draft)
        puffins = puffin_locations(before)
        keys: set[Key] = {(name, None) for name in data_files}
        keys |= {(puffins[f.source], name) for f in vector_files if f.source in puffins for name in f.vectors}
        removed = before.keys() - keys
        carried = self._without(manifests, removed, draft)
        added = {
            DATA: [self.exported.added(e, draft) for name, e in data_files.items() if (name, None) not in before],
            DELETES: [e for f in vector_files if f.source not in puffins for e in vectors.added(f, draft)],
        }
        for content, entries in added.items():
            if entries:
                carried.append(self.files.write_manifest(entries, draft, content))
            carried = self._merged(carried, draft, content)
        delete_entries = [*(e for key, e in before.items() if key not in removed), *added[DELETES]]
        positions = [e["data_file"]["record_count"] for e in delete_entries if key_of(e)[1] is not None]
        summary = {
            "operation": _operation(snapshot, written, bool(removed or added[DELETES])),
            "added-data-files": str(len(added[DATA])),
            "deleted-data-files": str(sum(key[1] is None for key in removed)),
            "total-data-files": str(len(picked)),
            "total-records": str(sum(e.file.row_count for e in picked)),
            "total-files-size": str(sum(e.file.file_size for e in picked)),
            "total-delete-files": str(len(positions)),
            "total-position-deletes": str(sum(positions)),
            "total-equality-deletes": "0",
            LEFT_OUT: str(len(live) - len(picked)),
            SHOWN: self.exported.shown(written),
            COMMIT: commit_text(snapshot),
        }
        parent_id = None if parent is None else parent.id
        location = self.files.write_list(carried, draft, parent_id)
        rows = sum(e["data_file"]["record_count"] for e in added[DATA])
        return IcebergSnapshot(
            snapshot.id, parent_id, snapshot.time_millis, written.id, location, summary, first_row_id, rows
        )

    def _check(
        self, picked: Sequence[ManifestEntry], snapshot: Snapshot, written: TableSchema, current: TableSchema | None
    ) -> None:
        self.exported.check(picked, snapshot, written)
        if current is not None and NameMapping.of(schemas_json(self.exported.schemas, current, ())).is_ambiguous:
            self.exported.check_field_ids(picked)
        for target in {written.id: written, **({} if current is None else {current.id: current})}.values():
            self.exported.check_readable(picked, target)

    def _read_parent(
        self, parent: IcebergSnapshot | None, draft: Draft
    ) -> tuple[list[tuple[ManifestRecord, list[Entry]]], dict[Key, Entry]]:
        """The manifests of a parent with their entries, and all entries.

        Nothing if one is unreadable, or if version 3 needs the numbers of rows and another writer gave them none.
        """
        if parent is None:
            return [], {}
        try:
            manifests = [(m, self.files.read_manifest(m)) for m in self.files.read_list(parent.manifest_list)]
        except LakelogError:
            return [], {}
        before = {key_of(e): e for _, entries in manifests for e in entries}
        has_numbers = all(e["data_file"].get("first_row_id") is not None for key, e in before.items() if key[1] is None)
        return (manifests, before) if has_numbers or draft.first_row_id is None else ([], {})

    def _without(
        self, manifests: Sequence[tuple[ManifestRecord, list[Entry]]], removed: Collection[Key], draft: Draft
    ) -> list[ManifestRecord]:
        """The manifests of the parent, written again where a file is removed."""
        out = []
        for manifest, entries in manifests:
            if not any(key_of(e) in removed for e in entries):
                out.append(manifest)
                continue
            rewritten = [
                {**e, "status": DELETED, "snapshot_id": draft.id} if key_of(e) in removed else {**e, "status": EXISTING}
                for e in entries
            ]
            out.append(self.files.write_manifest(rewritten, draft, manifest["content"]))
        return out

    def _merged(self, manifests: list[ManifestRecord], draft: Draft, content: int) -> list[ManifestRecord]:
        """The same files with the small manifests of this content merged, once there are many."""
        small = [
            m
            for m in manifests
            if m["content"] == content and m["manifest_length"] < _MERGED_BYTES and not _deletes(m, draft.id)
        ]
        if len(small) < Options(self.files.paths.schema.options).need(MANIFEST_MERGE_COUNT):
            return manifests
        entries = [
            e if e["snapshot_id"] == draft.id else {**e, "status": EXISTING}
            for m in small
            for e in self.files.read_manifest(m)
        ]
        # those of earlier snapshots, which this export may also have made, are in the lists of these
        self.files.discard([m for m in small if m["added_snapshot_id"] == draft.id])
        others = [m for m in manifests if not any(m is other for other in small)]
        return [*others, self.files.write_manifest(entries, draft, content)]


def _deletes(manifest: ManifestRecord, snapshot_id: int) -> bool:
    """Returns whether a manifest says what this snapshot has removed."""
    return bool(manifest["deleted_files_count"]) and manifest["added_snapshot_id"] == snapshot_id


def _operation(snapshot: Snapshot, schema: TableSchema, has_removed: bool) -> str:
    if not has_removed:
        return "append"
    # with a primary key, readers see rows after their compaction
    return "replace" if snapshot.commit_kind == COMPACT and not schema.is_keyed else "overwrite"

"""Writes the Iceberg metadata of a table (RFC 19)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakelog.errors import LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.gc.reachability import ReachableFiles
from lakelog.filestore.iceberg.data_files import ExportedFiles
from lakelog.filestore.iceberg.manifests import DELETED, EXISTING, Entry, IcebergFiles, ManifestRecord, uri_of
from lakelog.filestore.iceberg.name_mapping import NameMapping
from lakelog.filestore.iceberg.schemas import Json, check_readable_as, iceberg_schema
from lakelog.filestore.iceberg.table_metadata import (
    COMMIT,
    LEFT_OUT,
    IcebergMetadata,
    IcebergSnapshot,
    MetadataFiles,
    commit_text,
)
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.metadata.snapshots import Snapshots
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.options.commit import MANIFEST_MERGE_COUNT
from lakelog.options.iceberg import DISABLED, ICEBERG_STORAGE, ICEBERG_VERSION
from lakelog.options.metrics import ICEBERG_FAILURES
from lakelog.options.option import Options
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.schema.schema import TableSchema

_LOG: Final = logging.getLogger("lakelog.iceberg")
_ROUNDS: Final = 3
"""Maximum rounds of one export; a commit that is faster each time exports itself."""
_FILLED: Final = 20
"""Maximum earlier snapshots that one export adds after failed ones."""
_KEPT_VERSIONS: Final = 10
"""Metadata files before the current one that stay, for readers that have opened one."""
_MERGED_BYTES: Final = 8 << 20
"""Manifests below this size are merged once there are many."""


def is_exported(schema: TableSchema) -> bool:
    """Returns whether commits to the table write Iceberg metadata; False for a storage that lakelog does not know."""
    return schema.options.get(ICEBERG_STORAGE.key, DISABLED) != DISABLED


def keep_exported(
    references: ReachableFiles, keep_from: Callable[[], int | None] | None
) -> Callable[[], int | None] | None:
    """``keep_from`` of an expiry, which also keeps the snapshot that Iceberg's readers see while exports fail."""
    if not is_exported(references.paths.schema) or references.paths.branch != MAIN_BRANCH:
        return keep_from

    def lowest() -> int | None:
        seen = MetadataFiles(references.io, references.paths).hint()
        if seen is not None and not references.io.exists(references.paths.snapshot(seen)):
            seen = None
        given = None if keep_from is None else keep_from()
        return min((at for at in (seen, given) if at is not None), default=None)

    return lowest


@dataclass(frozen=True)
class IcebergExport:
    """Keeps the Iceberg metadata in step with the main branch of one table.

    1 read the metadata that the hint names, and keep its snapshots that still exist · 2 make the manifests of the
    others: of the newest, of those after the newest kept one, and of tags · 3 write manifests and manifest lists · 4
    write the metadata file · 5 write the hint · 6 remove the files of removed snapshots. Readers see nothing before
    step 4. Each step may be repeated, also concurrently, so the next export repairs one that stopped half-way.
    """

    references: ReachableFiles
    table: str

    def export(self) -> None:
        """Called after a change of snapshots or tags, which is already decided: it logs errors and raises none."""
        try:
            self.run()
        except Exception as why:  # whatever fails here, the caller's commit has succeeded
            METER.add(ICEBERG_FAILURES, table=self.table, error=type(why).__name__)
            _LOG.warning(
                "table %s: its Iceberg metadata are not up to date, the next commit tries again: %s", self.table, why
            )

    def run(self) -> None:
        """Exports until the metadata are those of the newest snapshot. Raises LakelogError."""
        options = Options(self.references.paths.schema.options)
        options.need(ICEBERG_STORAGE)
        options.need(ICEBERG_VERSION)
        for _ in range(_ROUNDS):
            newest = self._snapshots.latest()
            if newest is None:
                return
            tags = self._tags()
            hint = self._files.hint()
            # a newer version than the newest snapshot is that of a commit in the meantime, unless it was rolled back
            if (hint or 0) <= newest.id or self._snapshots.latest_id() == newest.id:
                self._export(newest, tags, hint)
            if self._snapshots.latest_id() == newest.id and self._tags() == tags:
                return

    def _export(self, newest: Snapshot, tags: dict[str, Snapshot], hint: int | None) -> None:
        # 1
        base = None if hint is None else self._files.read(hint)
        kept = self._kept(base, newest, tags.values())
        # 2
        schema = self._current_schema(newest, newest.id in kept)
        made = self._missing(newest, tags.values(), kept, schema)
        # 3
        self._iceberg.flush()
        # 4
        metadata = IcebergMetadata(
            new_uuid() if base is None else base.table_uuid,
            self._location,
            newest.id,
            tuple(sorted(made.values(), key=lambda s: s.id)),
            {name: snapshot.id for name, snapshot in tags.items() if snapshot.id in made},
            self._schemas_json(schema, made.values()),
            0 if base is None else base.last_column_id,
        )
        data = metadata.to_json(schema)
        path = self._files.path(newest.id)
        with contextlib.suppress(NotFound):
            if hint == newest.id and self.references.io.read(path) == data:
                self._retire(newest.id, hint)
                return
        self.references.io.write(path, data)
        # 5
        if hint != newest.id:
            self._files.write_hint(newest.id)
        # 6
        self._retire(newest.id, hint)
        if base is not None:
            self._remove(base.snapshots, metadata.snapshots)

    # the snapshots

    def _current_schema(self, newest: Snapshot, is_kept: bool) -> TableSchema:
        """The newest schema; of a kept snapshot its own one if Iceberg's readers cannot apply the newest."""
        schema = self._schemas.get(self._schemas.newest_id(newest.schema_id))
        if is_kept and schema.id != newest.schema_id:
            written = self._schemas.get(newest.schema_id)
            try:
                self._check_readable(self._exported.pick(self.references.manifests.live(newest), written), schema)
            except UnsupportedFeature:
                return written
        return schema

    def _check_readable(self, entries: Collection[ManifestEntry], schema: TableSchema) -> None:
        current = iceberg_schema(schema)
        for schema_id in {e.file.schema_id for e in entries}:
            check_readable_as(iceberg_schema(self._schemas.get(schema_id)), current)

    def _kept(
        self, base: IcebergMetadata | None, newest: Snapshot, tagged: Collection[Snapshot]
    ) -> dict[int, IcebergSnapshot]:
        """The Iceberg snapshots that still hold; none if the table was moved."""
        if base is None or base.location != self._location:
            return {}
        by_tag = {snapshot.id: snapshot for snapshot in tagged}
        found = {}
        for old in base.snapshots:
            snapshot = newest if old.id == newest.id else by_tag.get(old.id) or self._existing(old.id)
            if snapshot is not None and old.id <= newest.id and old.is_of(snapshot):
                found[old.id] = old
        return found

    def _existing(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self._snapshots.read(snapshot_id)
        except NotFound:
            return None

    def _missing(
        self,
        newest: Snapshot,
        tagged: Collection[Snapshot],
        kept: dict[int, IcebergSnapshot],
        schema: TableSchema,
    ) -> dict[int, IcebergSnapshot]:
        """The kept Iceberg snapshots and those that have to be made."""
        found = dict(kept)
        last = max(kept, default=newest.id - 1)
        wanted = {snapshot.id: snapshot for snapshot in tagged if snapshot.id <= newest.id}
        for at in range(max(last + 1, newest.id - _FILLED), newest.id):
            snapshot = self._existing(at)
            if snapshot is not None:
                wanted[at] = snapshot
        wanted[newest.id] = newest
        for at, snapshot in sorted(wanted.items()):
            if at in found:
                continue
            try:
                found[at] = self._make(snapshot, found, schema if at == newest.id else None)
            except UnsupportedFeature:
                # without an older snapshot, Iceberg's readers miss a point in the past and no row
                if at == newest.id:
                    raise
        return found

    def _make(
        self, snapshot: Snapshot, found: dict[int, IcebergSnapshot], current: TableSchema | None
    ) -> IcebergSnapshot:
        """Makes the manifests of a snapshot; ``current`` is the schema of the table if it is the newest one."""
        parent = found.get(max((at for at in found if at < snapshot.id), default=-1))
        written = self._schemas.get(snapshot.schema_id)
        live = self.references.manifests.live(snapshot)
        exported = self._exported.pick(live, written)
        self._exported.check(exported, snapshot)
        if current is not None and NameMapping.of(self._schemas_json(current, ())).is_ambiguous:
            self._exported.check_field_ids(exported)
        for target in {written.id: written, **({} if current is None else {current.id: current})}.values():
            self._check_readable(exported, target)
        files = {self._exported.location(e): e for e in exported}
        manifests, before = self._read_parent(parent)
        removed = before.keys() - files.keys()
        carried = self._without(manifests, before, removed, snapshot.id, written)
        new = [self._exported.added(e, snapshot.id, written) for name, e in files.items() if name not in before]
        if new:
            carried.append(self._iceberg.write_manifest(new, snapshot.id, written))
        carried = self._merged(carried, snapshot.id, written)
        rows = sum(e.file.row_count for e in exported)
        summary = {
            "operation": _operation(snapshot, bool(removed)),
            "added-data-files": str(len(new)),
            "deleted-data-files": str(len(removed)),
            "total-data-files": str(len(exported)),
            "total-records": str(rows),
            "total-files-size": str(sum(e.file.file_size for e in exported)),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
            LEFT_OUT: str(len(live) - len(exported)),
            COMMIT: commit_text(snapshot),
        }
        parent_id = None if parent is None else parent.id
        location = self._iceberg.write_list(carried, snapshot.id, parent_id)
        return IcebergSnapshot(snapshot.id, parent_id, snapshot.time_millis, written.id, location, summary)

    def _read_parent(
        self, parent: IcebergSnapshot | None
    ) -> tuple[list[tuple[ManifestRecord, list[Entry]]], dict[str, Entry]]:
        """The manifests of a parent with their entries, and all entries by location; nothing if one is unreadable."""
        if parent is None:
            return [], {}
        try:
            found = [(m, self._iceberg.read_manifest(m)) for m in self._iceberg.read_list(parent.manifest_list)]
            return found, {e["data_file"]["file_path"]: e for _, entries in found for e in entries}
        except LakelogError:
            return [], {}

    def _without(
        self,
        manifests: Sequence[tuple[ManifestRecord, list[Entry]]],
        before: dict[str, Entry],
        removed: Collection[str],
        snapshot_id: int,
        schema: TableSchema,
    ) -> list[ManifestRecord]:
        """The manifests of the parent, written again where a file is removed."""
        out = []
        for manifest, entries in manifests:
            if not any(e["data_file"]["file_path"] in removed for e in entries):
                out.append(manifest)
                continue
            rewritten = [
                {**e, "status": DELETED, "snapshot_id": snapshot_id}
                if e["data_file"]["file_path"] in removed
                else {**e, "status": EXISTING}
                for e in entries
            ]
            out.append(self._iceberg.write_manifest(rewritten, snapshot_id, schema))
        return out

    def _merged(self, manifests: list[ManifestRecord], snapshot_id: int, schema: TableSchema) -> list[ManifestRecord]:
        """The same files with the small manifests merged, once there are many."""
        small = [m for m in manifests if m["manifest_length"] < _MERGED_BYTES and not _deletes(m, snapshot_id)]
        if len(small) < Options(self.references.paths.schema.options).need(MANIFEST_MERGE_COUNT):
            return manifests
        entries = [
            e if e["snapshot_id"] == snapshot_id else {**e, "status": EXISTING}
            for m in small
            for e in self._iceberg.read_manifest(m)
        ]
        # those of earlier snapshots, which this export may also have made, are in the lists of these
        self._iceberg.discard([m for m in small if m["added_snapshot_id"] == snapshot_id])
        others = [m for m in manifests if not any(m is other for other in small)]
        return [*others, self._iceberg.write_manifest(entries, snapshot_id, schema)]

    # removal

    def _retire(self, newest: int, hint: int | None) -> None:
        """Deletes old metadata files, and those above the newest snapshot, which a rollback has left."""
        was_rolled_back = (hint or 0) > newest or self.references.io.exists(self._files.path(newest + 1))
        if hint == newest and not was_rolled_back:
            return
        if was_rolled_back or hint is None:
            versions = self._files.versions()
            latest = self._snapshots.latest_id() or newest  # requested last, so that each valid version has a snapshot
            old = [v for v in versions if v < newest - _KEPT_VERSIONS or v > latest]
        else:
            old = list(range(hint - _KEPT_VERSIONS, newest - _KEPT_VERSIONS))
        for version in old:
            if version > 0:
                self.references.io.delete(self._files.path(version))

    def _remove(self, before: Sequence[IcebergSnapshot], after: Sequence[IcebergSnapshot]) -> None:
        """Deletes the manifests and lists of removed snapshots.

        A manifest is in the lists of consecutive snapshots. So one that the neighbours do not name is named by none.
        """
        names = {snapshot.manifest_list for snapshot in after}
        for old in before:
            if old.manifest_list in names:
                continue
            with contextlib.suppress(LakelogError):
                below = max((s for s in after if s.id <= old.id), key=lambda s: s.id, default=None)
                above = min((s for s in after if s.id > old.id), key=lambda s: s.id, default=None)
                used = {
                    m for s in (below, above) if s is not None for m in self._iceberg.named_manifests(s.manifest_list)
                }
                mine = self._iceberg.named_manifests(old.manifest_list)
                self._iceberg.delete([*(mine - used), old.manifest_list])

    # what it reads

    def _schemas_json(self, current: TableSchema, snapshots: Collection[IcebergSnapshot]) -> tuple[Json, ...]:
        """All schemas; one that Iceberg cannot express and that no snapshot names is left out."""
        needed = {current.id, *(s.schema_id for s in snapshots)}
        out = []
        for schema in self._schemas.own(range(current.id + 1)):
            try:
                out.append(iceberg_schema(schema))
            except LakelogError:
                if schema.id in needed:
                    raise
        return tuple(out)

    def _tags(self) -> dict[str, Snapshot]:
        """The tags; Iceberg's branch has the name ``main``, so a tag of this name is left out."""
        return {tag.name: tag.snapshot for tag in self.references.tags() if tag.name != "main"}

    @property
    def _location(self) -> str:
        return uri_of(self.references.io.absolute(self.references.paths.root))

    @cached_property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.references.io, self.references.paths)

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self.references.io, self.references.paths)

    @cached_property
    def _exported(self) -> ExportedFiles:
        return ExportedFiles(self.references.manifests, self._schemas)

    @cached_property
    def _iceberg(self) -> IcebergFiles:
        return IcebergFiles(self.references.io, self.references.paths)

    @cached_property
    def _files(self) -> MetadataFiles:
        return MetadataFiles(self.references.io, self.references.paths)


def _deletes(manifest: ManifestRecord, snapshot_id: int) -> bool:
    """Returns whether a manifest says what this snapshot has removed."""
    return bool(manifest["deleted_files_count"]) and manifest["added_snapshot_id"] == snapshot_id


def _operation(snapshot: Snapshot, has_removed: bool) -> str:
    if not has_removed:
        return "append"
    return "replace" if snapshot.commit_kind == COMPACT else "overwrite"

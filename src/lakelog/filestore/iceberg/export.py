"""Writes the Iceberg metadata of a table (RFC 19)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from lakelog.errors import LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.gc.reachability import ReachableFiles
from lakelog.filestore.iceberg.data_files import ExportedFiles
from lakelog.filestore.iceberg.manifests import IcebergFiles, uri_of
from lakelog.filestore.iceberg.snapshots import SnapshotMaker, schemas_json
from lakelog.filestore.iceberg.table_metadata import IcebergMetadata, IcebergSnapshot, MetadataFiles, next_row_id
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.options.iceberg import DISABLED, ICEBERG_STORAGE, ICEBERG_VERSION, VECTORS_VERSION
from lakelog.options.metrics import ICEBERG_FAILURES
from lakelog.options.option import Options
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema

_LOG: Final = logging.getLogger("lakelog.iceberg")
_ROUNDS: Final = 3
"""Maximum rounds of one export; a commit that is faster each time exports itself."""
_FILLED: Final = 20
"""Maximum earlier snapshots that one export adds after failed ones."""
_KEPT_VERSIONS: Final = 10
"""Metadata files before the current one that stay, for readers that have opened one."""


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
        first_kept = None if keep_from is None else keep_from()
        return min((at for at in (seen, first_kept) if at is not None), default=None)

    return lowest


@dataclass(frozen=True)
class IcebergExport:
    """Keeps the Iceberg metadata in step with the main branch of one table.

    1 read the metadata that the hint names, and keep its snapshots that still exist · 2 make the manifests of the
    others: of the newest, of those after the newest kept one, and of tags · 3 write manifests, lists and Puffin files ·
    4 write the metadata file · 5 write the hint · 6 remove the files of removed snapshots. Readers see nothing before
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
        Options(self.references.paths.schema.options).need(ICEBERG_STORAGE)
        for _ in range(_ROUNDS):
            newest = self.references.snapshots.latest()
            if newest is None:
                return
            tags = self._tags()
            hint = self._files.hint()
            # a newer version than the newest snapshot is that of a commit in the meantime, unless it was rolled back
            if (hint or 0) <= newest.id or self.references.snapshots.latest_id() == newest.id:
                self._export(newest, tags, hint)
            if self.references.snapshots.latest_id() == newest.id and self._tags() == tags:
                return

    def _export(self, newest: Snapshot, tags: dict[str, Snapshot], hint: int | None) -> None:
        # 1
        base = None if hint is None else self._files.read(hint)
        kept = self._kept(base, newest, tags.values())
        since = max(kept, default=newest.id - 1) + 1
        schema = self._schemas.get(self._schemas.newest_id(newest.schema_id))
        maker = self._maker(schema)
        version = maker.files.version
        if base is not None and base.version != version:
            # the manifests of a version number all rows or none
            since, kept = min(kept, default=newest.id), {}
        # 2
        if newest.id in kept:
            schema = self._readable_schema(newest, schema, maker.exported)
        free_row_id = 0 if base is None else base.next_row_id
        exported = self._missing(newest, tags.values(), kept, since, schema, maker, free_row_id)
        # 3
        maker.files.flush()
        # 4
        metadata = IcebergMetadata(
            new_uuid() if base is None or base.version > version else base.table_uuid,
            self._location,
            newest.id,
            tuple(sorted(exported.values(), key=lambda s: s.id)),
            {name: snapshot.id for name, snapshot in tags.items() if snapshot.id in exported},
            schemas_json(self._schemas, schema, {s.schema_id for s in exported.values()}),
            0 if base is None else base.last_column_id,
            version,
            next_row_id(free_row_id, exported.values()),
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
            _remove(maker.files, base.snapshots, metadata.snapshots)

    # the snapshots

    def _maker(self, schema: TableSchema) -> SnapshotMaker:
        """Makes snapshots of the version of the newest schema: another process may have altered the table."""
        version = Options(schema.options).need(ICEBERG_VERSION)
        io, paths = self.references.io, self.references.paths
        exported = ExportedFiles(self.references.manifests, self._schemas, version)
        return SnapshotMaker(exported, IcebergFiles(io, paths, version))

    def _readable_schema(self, newest: Snapshot, schema: TableSchema, exported: ExportedFiles) -> TableSchema:
        """The newest schema; that of the kept snapshot if Iceberg's readers cannot apply the newest."""
        written = self._schemas.get(newest.schema_id)
        if schema.id != written.id:
            try:
                exported.check_readable(exported.pick(self.references.manifests.live(newest), written), schema)
            except UnsupportedFeature:
                return written
        return schema

    def _kept(
        self, base: IcebergMetadata | None, newest: Snapshot, tagged: Collection[Snapshot]
    ) -> dict[int, IcebergSnapshot]:
        """The Iceberg snapshots that still hold; none if the table was moved."""
        if base is None or base.location != self._location:
            return {}
        by_tag = {snapshot.id: snapshot for snapshot in tagged}
        snapshots = {}
        for old in base.snapshots:
            snapshot = newest if old.id == newest.id else by_tag.get(old.id) or self._existing(old.id)
            if snapshot is not None and old.id <= newest.id and old.is_of(snapshot):
                snapshots[old.id] = old
        return snapshots

    def _existing(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self.references.snapshots.read(snapshot_id)
        except NotFound:
            return None

    def _missing(
        self,
        newest: Snapshot,
        tagged: Collection[Snapshot],
        kept: dict[int, IcebergSnapshot],
        since: int,
        schema: TableSchema,
        maker: SnapshotMaker,
        free_row_id: int,
    ) -> dict[int, IcebergSnapshot]:
        """The kept Iceberg snapshots and those that have to be made: those from ``since`` on, and those of tags."""
        exported = dict(kept)
        snapshots = {snapshot.id: snapshot for snapshot in tagged if snapshot.id <= newest.id}
        for at in range(max(since, newest.id - _FILLED), newest.id):
            snapshot = self._existing(at)
            if snapshot is not None:
                snapshots[at] = snapshot
        snapshots[newest.id] = newest
        for at, snapshot in sorted(snapshots.items()):
            if at in exported:
                continue
            number = next_row_id(free_row_id, exported.values()) if maker.files.version >= VECTORS_VERSION else None
            try:
                parent = exported.get(max((n for n in exported if n < at), default=-1))
                exported[at] = maker.make(snapshot, parent, number, schema if at == newest.id else None)
            except UnsupportedFeature:
                # without an older snapshot, Iceberg's readers miss a point in the past and no row
                if at == newest.id:
                    raise
        return exported

    # removal

    def _retire(self, newest: int, hint: int | None) -> None:
        """Deletes old metadata files, and those above the newest snapshot, which a rollback has left."""
        was_rolled_back = (hint or 0) > newest or self.references.io.exists(self._files.path(newest + 1))
        if hint == newest and not was_rolled_back:
            return
        if was_rolled_back or hint is None:
            versions = self._files.versions()
            latest = (
                self.references.snapshots.latest_id() or newest
            )  # requested last, so that each valid version has a snapshot
            old = [v for v in versions if v < newest - _KEPT_VERSIONS or v > latest]
        else:
            old = list(range(hint - _KEPT_VERSIONS, newest - _KEPT_VERSIONS))
        for version in old:
            if version > 0:
                self.references.io.delete(self._files.path(version))

    # what it reads

    def _tags(self) -> dict[str, Snapshot]:
        """The tags; Iceberg's branch has the name ``main``, so a tag of this name is left out."""
        return {tag.name: tag.snapshot for tag in self.references.tags() if tag.name != "main"}

    @property
    def _location(self) -> str:
        return uri_of(self.references.io.absolute(self.references.paths.root))

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self.references.io, self.references.paths)

    @cached_property
    def _files(self) -> MetadataFiles:
        return MetadataFiles(self.references.io, self.references.paths)


def _remove(files: IcebergFiles, before: Sequence[IcebergSnapshot], after: Sequence[IcebergSnapshot]) -> None:
    """Deletes the manifests, lists and Puffin files of removed snapshots.

    Consecutive snapshots name a file. So one that the neighbours do not name is named by none.
    """
    names = {snapshot.manifest_list for snapshot in after}
    named = cache(files.named_files)
    unused: set[str] = set()
    for old in before:
        if old.manifest_list in names:
            continue
        with contextlib.suppress(LakelogError):
            below = max((s for s in after if s.id <= old.id), key=lambda s: s.id, default=None)
            above = min((s for s in after if s.id > old.id), key=lambda s: s.id, default=None)
            used = {name for s in (below, above) if s is not None for name in named(s.manifest_list)}
            unused |= {*named(old.manifest_list) - used, old.manifest_list}
    for location in unused:
        with contextlib.suppress(LakelogError):
            files.delete(location)

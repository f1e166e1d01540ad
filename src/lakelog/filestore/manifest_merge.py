"""Keeps the manifests of a table few: joins small ones, forgets files that were added and deleted (sheet 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakelog.filestore.manifests import Manifests, ManifestWriter
from lakelog.options.option import Options
from lakelog.options.table import MANIFEST_FULL_COMPACTION_SIZE, MANIFEST_MERGE_COUNT, MANIFEST_TARGET_SIZE
from lakelog.spec.manifest import ADD, ManifestEntry, ManifestFileMeta


def merge_manifests(
    metas: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter
) -> list[ManifestFileMeta]:
    """The manifests of a new base list: the same entries, order kept, in fewer files where it is worth it.

    Called by each commit with all manifests of the snapshot before. Small neighbours are joined when there are
    ``manifest.merge-min-count`` small ones; everything is rewritten to what is alive when manifests with deletes pass
    ``manifest.full-compaction-threshold-size``.
    """
    options = Options(manifests.paths.schema.options)
    target = int(options.need(MANIFEST_TARGET_SIZE))
    changed = sum(m.file_size for m in metas if m.num_deleted_files)
    if changed >= int(options.need(MANIFEST_FULL_COMPACTION_SIZE)):
        return _rewrite(metas, manifests, writer, target)
    if sum(m.file_size < target for m in metas) < options.need(MANIFEST_MERGE_COUNT):
        return list(metas)
    out: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    for meta in metas:
        if meta.file_size >= target or sum(m.file_size for m in group) >= target:
            out += _join(group, manifests, writer)
            group = []
        if meta.file_size >= target:
            out.append(meta)
        else:
            group.append(meta)
    return out + _join(group, manifests, writer)


def _join(group: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter) -> list[ManifestFileMeta]:
    if len(group) < 2:
        return list(group)
    entries = without_pairs(entry for meta in group for entry in manifests.read(meta.file_name))
    return [writer.write(entries)] if entries else []


def _rewrite(
    metas: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter, target: int
) -> list[ManifestFileMeta]:
    entries = without_pairs(entry for meta in metas for entry in manifests.read(meta.file_name))
    all_entries = sum(m.num_added_files + m.num_deleted_files for m in metas)
    per_file = max(1, target * all_entries // max(1, sum(m.file_size for m in metas)))
    return [writer.write(entries[at : at + per_file]) for at in range(0, len(entries), per_file)]


def without_pairs(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries without those that were added and then deleted; a DELETE of a file added elsewhere stays."""
    kept: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        before = kept.get(entry.identifier)
        if entry.kind != ADD and before is not None and before.kind == ADD:
            del kept[entry.identifier]
        else:
            kept[entry.identifier] = entry
    return list(kept.values())

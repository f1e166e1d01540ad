"""Manifest compaction: merges small manifests and removes files that were added and deleted (sheet 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from lakelog.fileformat.avro_file import Block
from lakelog.filestore.metadata.manifests import Manifests, ManifestWriter
from lakelog.options.commit import MANIFEST_FULL_COMPACTION_SIZE, MANIFEST_MERGE_COUNT, MANIFEST_TARGET_SIZE
from lakelog.options.option import Options
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry, ManifestFileMeta
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema

_COPIED_FROM: Final = 1000
"""Minimum entries of a manifest whose blocks are copied; smaller ones are cached, or cheap to decode."""


def merge_manifests(
    metas: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter
) -> list[ManifestFileMeta]:
    """The manifests of a new base list: the same entries in the same order, in fewer files if worthwhile.

    Each commit calls it with all manifests of the previous snapshot. If there are ``manifest.merge-min-count`` small
    manifests, small neighbours are merged, and blocks without deleted entries are copied unchanged. If manifests with
    deletes exceed ``manifest.full-compaction-threshold-size``, all manifests are rewritten to the live entries.
    """
    options = Options(manifests.paths.schema.options)
    target = int(options.need(MANIFEST_TARGET_SIZE))
    changed = sum(m.file_size for m in metas if m.num_deleted_files)
    if changed >= int(options.need(MANIFEST_FULL_COMPACTION_SIZE)):
        return rewrite_manifests(metas, manifests, writer)
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


def are_few(metas: Sequence[ManifestFileMeta], schema: TableSchema) -> bool:
    """Returns whether a rewrite would not reduce the manifests: none has deletes, and their size needs all of them."""
    target = int(Options(schema.options).need(MANIFEST_TARGET_SIZE))
    least = -(-sum(m.file_size for m in metas) // target)
    return all(not m.num_deleted_files for m in metas) and len(metas) <= least


def rewrite_manifests(
    metas: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter
) -> list[ManifestFileMeta]:
    """The live entries in the minimum number of manifests, ordered by partition and bucket.

    Called if manifests with deletes have become large, and on a user's request.
    """
    target = int(Options(manifests.paths.schema.options).need(MANIFEST_TARGET_SIZE))
    entries = without_pairs(entry for meta in metas for entry in manifests.read(meta.file_name))
    # sorted, so that a plan of one partition finds it in one manifest
    order = sorted({e.partition for e in entries}, key=lambda p: _order(decode_partition(p, manifests.paths.schema)))
    order_of = {partition: at for at, partition in enumerate(order)}
    entries.sort(key=lambda e: (order_of[e.partition], e.bucket))
    all_entries = sum(m.num_added_files + m.num_deleted_files for m in metas)
    per_file = max(1, target * all_entries // max(1, sum(m.file_size for m in metas)))
    return [writer.write(entries[at : at + per_file]) for at in range(0, len(entries), per_file)]


def _join(group: Sequence[ManifestFileMeta], manifests: Manifests, writer: ManifestWriter) -> list[ManifestFileMeta]:
    if len(group) < 2:
        return list(group)
    deleted = [name for meta in group for part in manifests.parts(meta.file_name) for name in part.deleted_names()]
    blocks: list[Block] = []
    others: list[ManifestEntry] = []
    for meta in group:
        copied, built = _copied(meta, deleted, manifests)
        blocks += copied
        others += built
    entries = without_pairs(others)
    return [writer.write(entries, blocks)] if entries or blocks else []


def _copied(
    meta: ManifestFileMeta, deleted: Sequence[str], manifests: Manifests
) -> tuple[Sequence[Block], Sequence[ManifestEntry]]:
    """The blocks of a manifest without a file named in ``deleted``, and the entries of all other blocks.

    Most entries of a growing table never change, so they can be copied without decoding.
    """
    is_large = meta.num_added_files + meta.num_deleted_files >= _COPIED_FROM
    blocks = manifests.blocks(meta.file_name) if is_large else None
    if blocks is None:
        return (), manifests.read(meta.file_name)
    ends = np.cumsum([count for count, _ in blocks])
    kept = np.ones(len(blocks), bool)
    built: list[ManifestEntry] = []
    start = 0
    parts = list(manifests.parts(meta.file_name))
    for part in parts:
        named = start + np.flatnonzero(part.is_named(deleted))
        kept[np.searchsorted(ends, named, side="right")] = False
        start += part.count
    start = 0
    for part in parts:
        at = np.searchsorted(ends, np.arange(start, start + part.count), side="right")
        built += part.at(np.flatnonzero(~kept[at]))
        start += part.count
    return [block for block, is_kept in zip(blocks, kept, strict=True) if is_kept], built


def _order(values: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    """Partition values, NULL first."""
    return tuple((value is not None, 0 if value is None else value) for value in values)


def without_pairs(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries without ADD and DELETE pairs of one file; a DELETE of a file added elsewhere stays."""
    kept: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        before = kept.get(entry.identifier)
        if entry.kind != ADD and before is not None and before.kind == ADD:
            del kept[entry.identifier]
        else:
            kept[entry.identifier] = entry
    return list(kept.values())

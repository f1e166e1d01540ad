"""Writes the sequenced rows of one bucket as files: level 0, and its changelog."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakelog.errors import InvalidSchema
from lakelog.filestore.write.bucket_writer import BucketWriter
from lakelog.io.logs import fields
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.runs.sequencing import InlineRows, SequencedRuns, ShiftedRun

_LOG = logging.getLogger("lakelog.seal")


def write_level0_files(
    table: DynamicTable, partition: bytes, bucket: int, total: int, runs: SequencedRuns
) -> BucketFiles:
    """The files of one bucket of ``total``; those of large runs are used unchanged, or shifted.

    Called by a seal. Changelog files have the order of the sequence numbers, so that the changes of one key in two
    files keep their order.
    """
    new: list[DataFileMeta] = []
    changelog: list[DataFileMeta] = []
    for part in _parts(table, runs):
        if isinstance(part, ShiftedRun):
            files, changes = _shifted(table, partition, bucket, part)
        else:
            files, changes = _inline_files(table, partition, bucket, part)
        new += files
        changelog += changes
    return BucketFiles(partition, bucket, total, new_files=tuple(new), changelog_files=tuple(changelog))


def _inline_files(
    table: DynamicTable, partition: bytes, bucket: int, part: list[InlineRows]
) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
    """The data and changelog files of inline rows.

    Each epoch's rows can be folded, because its tasks have checked that. If those of several cannot, because a sum
    exceeds its column, each epoch gets its own files. Decided epochs must not wait without end. Reads and
    compactions report the faulty key.
    """
    try:
        writer = write_inline(table, partition, bucket, part)
        return writer.finish(), writer.changelog_files
    except InvalidSchema as why:
        if len(part) == 1:
            raise
        _LOG.warning(
            "table %s, bucket %s: rows of epochs are not folded together: %s",
            table.name, bucket, why, extra=fields(table=table.name, bucket=bucket),
        )  # fmt: skip
    files: list[DataFileMeta] = []
    changes: list[DataFileMeta] = []
    for one in part:
        more, changelog = _inline_files(table, partition, bucket, [one])
        files += more
        changes += changelog
    return tuple(files), tuple(changes)


def write_inline(table: DynamicTable, partition: bytes, bucket: int, rows: Iterable[InlineRows]) -> BucketWriter:
    """A writer with these rows, to be finished; it writes a changelog only if all of them require it."""
    parts = list(rows)
    writer = table.store.bucket_writer(partition, bucket, emits_changelog=all(p.emits_changelog for p in parts))
    for part in parts:
        values = part.rows.drop_columns([ORDER_COLUMN, KIND_COLUMN])
        writer.write(values, part.rows.column(KIND_COLUMN), part.rows.column(ORDER_COLUMN))
    return writer


def _parts(table: DynamicTable, runs: SequencedRuns) -> list[ShiftedRun | list[InlineRows]]:
    """Large runs, and inline rows for one writer: all of them if the order of files does not matter."""
    if not table.emits_changelog:
        return [*runs.staged, *([runs.inline] if runs.inline else [])]
    out: list[ShiftedRun | list[InlineRows]] = []
    for part in runs.in_order():
        if isinstance(part, ShiftedRun):
            out.append(part)
        elif out and isinstance(out[-1], list) and out[-1][-1].emits_changelog == part.emits_changelog:
            out[-1].append(part)
        else:
            out.append([part])
    return out


def _shifted(
    table: DynamicTable, partition: bytes, bucket: int, held: ShiftedRun
) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
    run, shift, store = held.run, held.shift, table.store
    if not shift:
        return run.files, run.changelog
    return (
        tuple(store.shift_sequences(partition, bucket, f, shift) for f in run.files),
        tuple(store.shift_sequences(partition, bucket, f, shift, is_changelog=True) for f in run.changelog),
    )

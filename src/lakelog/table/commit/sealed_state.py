"""The state of a writer in the snapshot that seals its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import COPY_AGAIN, KEPT_EPOCHS, WriterState


def sealed_state(
    verified: WriterState,
    records: Sequence[EpochRecord],
    before: Sequence[EpochRecord],
    known: WriterState | None,
    number: int,
) -> WriterState:
    """The state of a writer in snapshot ``number``, which adds ``records``; those of ``before`` may lack markers."""
    last, sealed_in = records[-1], {} if known is None else known.sealed_in
    unmarked = [r for r in before if known is not None and known.unmarked.get(r.epoch) == r.digest]
    runs = [r.run for r in records if r.run is not None]
    return replace(
        verified,
        epoch=last.epoch,
        once=verified.once or last.once,
        ended=any(r.ended for r in records),
        unmarked={r.epoch: r.digest for r in (*unmarked, *records)},
        sealed_in={r.epoch: sealed_in.get(r.epoch, 0) for r in unmarked} | {r.epoch: number for r in records},
        run=runs[-1] if runs else None if known is None else known.run,
        digest=last.digest,
        rows=() if verified.once or last.once else _rows(known, records),
        position=last.position or ("" if known is None else known.position),
        undone=known is not None and known.undone and all(r.position != COPY_AGAIN for r in records),
        corrected=verified.corrected or (known is not None and known.corrected),
        number=number,
    )


def _rows(known: WriterState | None, records: Sequence[EpochRecord]) -> tuple[int, ...]:
    """The row counts of a writer's last epochs, up to that of the last record."""
    counts, last = {r.epoch: r.row_count for r in records}, records[-1].epoch
    first = min(counts) if known is None else known.epoch + 1
    added = [counts.get(epoch, 0) for epoch in range(max(first, last - KEPT_EPOCHS + 1), last + 1)]
    return (*(() if known is None else known.rows), *added)[-KEPT_EPOCHS:]

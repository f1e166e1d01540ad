"""Finds the snapshot that a point in time means, by bisection over snapshot ids (format sheet 13).

Pure: ``get`` answers with the snapshot of an id; of a history of n snapshots about log2 n are read.
"""

from __future__ import annotations

from collections.abc import Callable

from lakelog.paimon.metadata.snapshot import Snapshot

GetSnapshot = Callable[[int], Snapshot]


def pick_by_time(get: GetSnapshot, earliest: int, latest: int, millis: int) -> Snapshot | None:
    """The newest snapshot committed at ``millis`` (ms since 1970) or before; None when all are younger.

    Snapshots are taken to be committed in the order of their ids.
    """
    found: Snapshot | None = None
    while earliest <= latest:
        middle = (earliest + latest) // 2
        snapshot = get(middle)
        if snapshot.time_millis <= millis:
            found, earliest = snapshot, middle + 1
        else:
            latest = middle - 1
    return found


def pick_by_watermark(get: GetSnapshot, earliest: int, latest: int, watermark: int) -> Snapshot | None:
    """The first snapshot whose watermark is ``watermark`` or later; None when no snapshot has come so far.

    Watermarks only grow. Snapshots before the first one with a watermark have none; they count as earlier.
    """
    found: Snapshot | None = None
    while earliest <= latest:
        middle = (earliest + latest) // 2
        snapshot = get(middle)
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            found, latest = snapshot, middle - 1
        else:
            earliest = middle + 1
    return found

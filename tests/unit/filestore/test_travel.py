"""A point in time means one snapshot, found without reading the whole history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.metadata.snapshots import pick_by_time, pick_by_watermark
from lakelog.paimon.metadata.snapshot import Snapshot


def history(times: list[int], watermarks: list[int | None]) -> dict[int, Snapshot]:
    """Snapshots from id 5 on."""
    return {
        at: Snapshot(at, 0, "b", "d", "u", at, "APPEND", time, 0, 0, watermark=watermark)
        for at, (time, watermark) in enumerate(zip(times, watermarks, strict=True), 5)
    }


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(-5, 55))
def test_the_newest_snapshot_at_a_time_is_found_in_few_reads(times: list[int], millis: int) -> None:
    there = history(sorted(times), [None] * len(times))
    read: list[int] = []

    def get(snapshot_id: int) -> Snapshot:
        read.append(snapshot_id)
        return there[snapshot_id]

    found = pick_by_time(get, 5, 4 + len(times), millis)
    assert found == max((s for s in there.values() if s.time_millis <= millis), key=lambda s: s.id, default=None)
    assert len(read) <= len(times).bit_length()


@given(st.integers(0, 5), st.lists(st.integers(0, 50), max_size=40), st.integers(-5, 55))
def test_the_first_snapshot_with_a_watermark_is_found(without: int, marks: list[int], watermark: int) -> None:
    there = history(list(range(without + len(marks))), [*([None] * without), *sorted(marks)])
    found = pick_by_watermark(there.__getitem__, 5, 4 + len(there), watermark)
    late = (s for s in there.values() if s.watermark is not None and s.watermark >= watermark)
    assert found == min(late, key=lambda s: s.id, default=None)

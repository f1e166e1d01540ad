"""Sorted runs and sections of a bucket."""

from __future__ import annotations

from lakelog.filestore.metadata.levels import KeyRange, has_deletes, sections, sorted_runs
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.types.types import INT, AtomicType

TYPES = (INT,)
KEYS = KeyRange(TYPES)


def file(name: str, low: int, high: int, level: int = 0, newest: int = 0) -> DataFileMeta:
    low_key, high_key = encode_row((low,), TYPES), encode_row((high,), TYPES)
    return DataFileMeta(name, 1, 1, low_key, high_key, level=level, max_sequence_number=newest)


def test_level_0_files_are_runs_newest_first_and_other_levels_one_run_each() -> None:
    files = [file("b", 20, 30, 2), file("old", 1, 9, 0, 5), file("new", 1, 9, 0, 8), file("a", 1, 10, 2)]
    runs = sorted_runs(files, KEYS)
    assert [(r.level, [f.file_name for f in r.files]) for r in runs] == [(0, ["new"]), (0, ["old"]), (2, ["a", "b"])]
    assert runs[2].size == 2


def test_sections_hold_what_overlaps_directly_or_through_others() -> None:
    files = [file("d", 30, 40), file("a", 1, 10), file("b", 10, 20), file("c", 15, 22), file("e", 41, 50)]
    found = sections(files, KEYS)
    assert [[f.file_name for f in s.files] for s in found] == [["a", "b", "c"], ["d"], ["e"]]
    assert [(s.low, s.high) for s in found] == [((1,), (22,)), ((30,), (40,)), ((41,), (50,))]
    assert sections([], KEYS) == []


def test_a_wide_file_holds_a_section_together() -> None:
    found = sections([file("wide", 1, 100), file("a", 2, 3), file("b", 50, 60)], KEYS)
    assert [len(s.files) for s in found] == [3]


def test_runs_of_a_section_come_oldest_first() -> None:
    files = [file("new", 1, 9, 0, 8), file("x", 1, 2, 5), file("y", 3, 9, 5), file("old", 1, 9, 0, 5)]
    (section,) = sections(files, KEYS)
    assert [[f.file_name for f in run] for run in section.runs(KEYS)] == [["x", "y"], ["old"], ["new"]]


def test_an_unknown_number_of_deletes_counts_as_some() -> None:
    assert has_deletes(DataFileMeta("f", 1, 1))
    assert has_deletes(DataFileMeta("f", 1, 1, delete_row_count=1))
    assert not has_deletes(DataFileMeta("f", 1, 1, delete_row_count=0))


def test_nan_is_the_highest_key() -> None:
    types = (AtomicType("DOUBLE"),)
    keys = KeyRange(types)
    bounds = {"a": (-1.0, 3.0), "b": (2.0, float("nan")), "c": (5.0, 6.0), "d": (float("nan"), float("nan"))}
    files = [
        DataFileMeta(name, 1, 1, *(encode_row((bound,), types) for bound in both)) for name, both in bounds.items()
    ]
    assert [[f.file_name for f in s.files] for s in sections(files, keys)] == [["a", "b", "c", "d"]]
    assert [[f.file_name for f in s.files] for s in sections(files[::3], keys)] == [["a"], ["d"]]
    assert keys.high(files[1]) == keys.low(files[3]) > (float("inf"),) > keys.high(files[0])

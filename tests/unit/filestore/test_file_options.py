"""What the options of new data files do: their names, places, formats, columns and statistics."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from lakelog.errors import InvalidOption
from lakelog.filestore.skipping.predicate import Compare
from lakelog.paimon.metadata.column_stats import stats_bounds

I, U, D = 0, 2, 3  # noqa: E741 - row kinds


def written(table, *rows):
    (file,) = table.staged(*rows)[0].new_files
    return file


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("thin", ["false", "true"])
def test_keyed_tables_are_written_compacted_and_read_in_every_format(make_table, format_: str, thin: str) -> None:
    table = make_table(**{"file.format": format_, "data-file.thin-mode": thin})
    table.insert(*((I, i, f"n{i}", i / 2) for i in range(500)))
    table.insert(*((U, i, None, float(i)) for i in range(100, 200)), *((D, i, "", 0.0) for i in range(300, 350)))
    assert table.store.compact(b"\x00" * 12, 0, full=True) is not None
    table.insert((I, 300, "again", 1.0))
    assert len(table.ids(None)) == 451
    assert table.ids(Compare("name", "=", "again")) == [300]
    files = [e.file for e in table.store.live_entries(table.store.latest_snapshot())]
    assert all(f.file_name.endswith(f".{format_}") for f in files) and len(files) == 2


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_new_file_begins_at_the_target_size(make_table, format_: str) -> None:
    table = make_table(**{"file.format": format_, "target-file-size": "20 kb"})
    (change,) = table.staged(*((I, i, f"name {i * 7919}", i / 3) for i in range(10_000)))
    assert len(change.new_files) > 2 and sum(f.row_count for f in change.new_files) == 10_000
    assert all(f.file_size < 60_000 for f in change.new_files)


def test_thin_files_have_no_copies_of_the_key(make_table) -> None:
    for thin, columns in (("true", []), ("false", ["_KEY_id"])):
        table = make_table(**{"data-file.thin-mode": thin})
        file = written(table, (I, 1, "a", 1.0))
        found = pq.read_schema(table.store.io.open_input(table.store.paths.data_file(b"\x00" * 12, 0, file)))
        assert [n for n in found.names if n.startswith("_KEY_")] == columns


def test_levels_have_their_own_formats_compressions_and_statistics(make_table) -> None:
    table = make_table(
        **{
            "file.format.per.level": "0:avro, 5:parquet",
            "file.compression.per.level": "5:gzip",
            "file.suffix.include.compression": "true",
            "metadata.stats-mode.per.level": "0:none",
            "file.format": "orc",
        }
    )
    table.insert((I, 1, "a", 1.0))
    table.store.compact(b"\x00" * 12, 0, full=True)
    table.insert((I, 2, "b", 2.0))
    old, new = sorted((e.file for e in table.store.live_entries(table.store.latest_snapshot())), key=lambda f: -f.level)
    assert old.level == 5 and old.file_name.endswith("-0.gzip.parquet") and old.value_stats_cols is None
    assert new.level == 0 and new.file_name.endswith("-0.zstd.avro") and new.value_stats_cols == ()
    assert table.ids(None) == [1, 2]


@pytest.mark.parametrize("text", ["avro", "0:", "x:avro", "0:lance"])
def test_levels_that_make_no_sense_are_refused(make_table, text: str) -> None:
    with pytest.raises(InvalidOption, match="file.format"):
        written(make_table(**{"file.format.per.level": text}), (I, 1, "a", 1.0))


def test_data_files_may_lie_below_a_directory(make_table) -> None:
    table = make_table(**{"data-file.path-directory": "data/x"})
    table.insert((I, 1, "a", 1.0))
    (entry,) = table.store.live_entries(table.store.latest_snapshot())
    path = table.store.paths.data_file(entry.partition, 0, entry.file)
    assert path.endswith(f"/data/x/bucket-0/{entry.file.file_name}") and table.store.io.exists(path)
    assert table.ids(None) == [1]


LONG = "x" * 40
MODES = {
    "full": (LONG, LONG, 0),
    "truncate(4)": ("xxxx", "xxxy", 0),
    "counts": (None, None, 0),
    "none": (None, None, None),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dense", ["true", "false"])
def test_statistics_are_those_of_the_mode(make_table, mode: str, dense: str) -> None:
    table = make_table(**{"metadata.stats-mode": mode, "metadata.stats-dense-store": dense})
    file = written(table, (I, 1, LONG, 1.0))
    types = tuple(f.type for f in table.store.schema.fields)
    assert stats_bounds(file.value_stats, types, 1) == MODES[mode]
    assert file.value_stats_cols == (() if (mode, dense) == ("none", "true") else None)
    assert stats_bounds(file.key_stats, types[:1], 0) == (1, 1, 0), "keys always have some"


def test_one_column_has_a_mode_of_its_own_and_only_the_first_have_any(make_table) -> None:
    table = make_table(**{"fields.name.stats-mode": "none"})
    file = written(table, (I, 1, "a", 1.0))
    assert file.value_stats_cols == ("id", "amount")
    types = tuple(f.type for f in table.store.schema.select(file.value_stats_cols))
    assert stats_bounds(file.value_stats, types, 1) == (1.0, 1.0, 0)
    table = make_table(**{"metadata.stats-keep-first-n-columns": "1", "fields.amount.stats-mode": "counts"})
    assert written(table, (I, 1, "a", 1.0)).value_stats_cols == ("id", "amount")
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    assert table.ids(Compare("name", "=", "b")) == [2]


def test_bounds_of_text_are_cut_between_characters(make_table) -> None:
    table = make_table(**{"metadata.stats-mode": "truncate(2)"})
    types = tuple(f.type for f in table.store.schema.fields)

    def bounds(*names: str):
        rows = [(I, i, name, 1.0) for i, name in enumerate(names)]
        return stats_bounds(written(table, *rows).value_stats, types, 1)

    assert bounds("é日本", "😀😀😀") == ("é日", "😀😁", 0)
    assert bounds("a\U0010ffff\U0010ffff") == ("a\U0010ffff", "b", 0)
    assert bounds("\U0010ffff" * 3)[1] is None
    assert bounds("a\ud7ffx") == ("a\ud7ff", "a\ue000", 0), "no half of a pair is made"

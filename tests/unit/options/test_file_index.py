"""Options of file indexes."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidOption
from lakelog.options.file_index import BloomOptions, bloom_columns
from lakelog.options.table import TABLE_OPTIONS

KEY = "file-index.bloom-filter."


def test_each_column_has_its_own_size_or_that_of_the_format() -> None:
    given = {f"{KEY}columns": "id, c", f"{KEY}c.items": "500", f"{KEY}c.fpp": "0.01"}
    assert bloom_columns(given) == (BloomOptions("id", 1_000_000, 0.1), BloomOptions("c", 500, 0.01))
    assert bloom_columns({}) == ()


@pytest.mark.parametrize(("key", "value"), [("items", "0"), ("items", "many"), ("fpp", "0"), ("fpp", "1")])
def test_sizes_that_no_filter_can_have_are_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=rf"'file-index\.bloom-filter\.c\.{key}' = '{value}"):
        bloom_columns({f"{KEY}columns": "c", f"{KEY}c.{key}": value})


def test_indexes_that_are_not_written_here_are_unknown_options() -> None:
    TABLE_OPTIONS.canonical({f"{KEY}columns": "c", "file-index.in-manifest-threshold": "1 kb"})
    with pytest.raises(InvalidOption, match=r"unknown option 'file-index\.bitmap\.columns'"):
        TABLE_OPTIONS.canonical({"file-index.bitmap.columns": "c"})

from __future__ import annotations

from datetime import timedelta

import pytest

from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.merge.table_rules import check_writable
from lakelog.options.commit import COMMIT_TIMEOUT
from lakelog.options.option import Options
from lakelog.options.retention import SNAPSHOT_TIME
from lakelog.options.table import (
    BUCKET,
    COMPACTION_TRIGGER,
    IGNORE_DELETE,
    MERGE_ENGINE,
    TABLE_OPTIONS,
    TARGET_FILE_SIZE,
    WRITE_BUFFER_SIZE,
    WRITE_ONLY,
)


def test_defaults_are_those_of_paimon() -> None:
    none = Options()
    assert none.need(BUCKET) == -1
    assert none.need(COMPACTION_TRIGGER) == 5
    assert none.need(MERGE_ENGINE) == "deduplicate"
    assert none.need(SNAPSHOT_TIME) == timedelta(hours=1)
    assert none.get_typed(TARGET_FILE_SIZE) is None
    assert none.get_typed(COMMIT_TIMEOUT) is None


def test_every_default_is_a_value_of_its_option() -> None:
    for option in TABLE_OPTIONS.options:
        if option.default is not None and not isinstance(option.default, timedelta):
            assert option.parse(str(option.default)) == option.default, option.key


def test_every_option_says_what_it_is_for_and_is_declared_once() -> None:
    keys = [o.key for o in TABLE_OPTIONS.options]
    assert len(keys) == len(set(keys))
    assert all(o.doc.endswith(".") for o in TABLE_OPTIONS.options)


def test_options_are_checked_by_name_value_and_place() -> None:
    given = {"bucket": "4", "fields.v.aggregate-function": "sum"}
    assert TABLE_OPTIONS.canonical(given, "table") == given
    with pytest.raises(InvalidOption, match="did you mean 'bucket'"):
        TABLE_OPTIONS.canonical({"buckett": "4"}, "table")
    with pytest.raises(InvalidOption, match="'merge-engine' = 'dedup'"):
        TABLE_OPTIONS.canonical({"merge-engine": "dedup"}, "table")
    with pytest.raises(InvalidOption, match="belongs to: table"):
        TABLE_OPTIONS.canonical({"bucket": "4"}, "write")
    assert TABLE_OPTIONS.canonical({WRITE_ONLY.key: "true", WRITE_BUFFER_SIZE.key: "64 mb"}, "write")


def test_tables_without_a_log_can_have_any_merge_engine() -> None:
    for options in ({"merge-engine": "aggregation"}, {"sequence.field": "v"}, {"rowkind.field": "op"}):
        check_writable(options)


def test_a_log_of_input_rows_needs_a_table_whose_newest_row_wins() -> None:
    for options in ({"merge-engine": "first-row"}, {"sequence.field": "v"}):
        with pytest.raises(InvalidOption, match="'log.content' = 'input' does not go with"):
            check_writable({**options, "log-store.enabled": "true"})
        check_writable({**options, "log-store.enabled": "true", "log.content": "changes"})
    for options in ({"emit.mode": "log"}, {"emit.mode": "file"}, {"change-tracking": "false"}):
        with pytest.raises(InvalidOption, match="does not go with 'log.content' = 'changes'"):
            check_writable({**options, "log-store.enabled": "true", "log.content": "changes"})


def test_an_option_has_its_other_spellings_in_the_options_of_a_table() -> None:
    assert Options({"first-row.ignore-delete": "true"}).need(IGNORE_DELETE)
    assert not Options({"ignore-delete": "false", "first-row.ignore-delete": "true"}).need(IGNORE_DELETE)


def test_ordinary_tables_can_be_written() -> None:
    check_writable({})
    check_writable({"bucket": "4", "merge-engine": "deduplicate", "deletion-vectors.enabled": "false"})


def test_what_would_be_ignored_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="'row-tracking.enabled' = 'true'"):
        check_writable({"row-tracking.enabled": "true"})


def test_a_first_row_needs_no_deletion_vectors() -> None:
    with pytest.raises(InvalidOption, match="'deletion-vectors.enabled'.*'first-row'"):
        check_writable({"deletion-vectors.enabled": "true", "merge-engine": "first-row"})

"""Options that name columns, or fit only some types: CREATE TABLE and ALTER TABLE accept them or say what fits."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.errors import InvalidOption, LakelogError

COLUMNS = "(id int, v string, at timestamp, n bigint, primary key (id))"
WRONG = {
    "times of rows, a text": (
        "'record-level.time-field' = 'v'",
        "'record-level.time-field' = 'v' must be a column of type INT, BIGINT or TIMESTAMP, and it is STRING: "
        "name one of id, at, n",
    ),
    "times of rows, no column": (
        "'record-level.time-field' = 'x', 'record-level.expire-time' = '1 d'",
        "'record-level.time-field' = 'x' must be .* no column of the table: name one of id, at, n",
    ),
    "times of rows, not named": (
        "'record-level.expire-time' = '1 d'",
        "'record-level.expire-time' = '1 d' needs .* 'record-level.time-field': name one of id, at, n",
    ),
    "kinds of rows": ("'rowkind.field' = 'n'", "'rowkind.field' = 'n' must be a column of type STRING"),
    "event time": ("'watermark.column' = 'v'", "'watermark.column' = 'v': the column is string; name a column of type"),
    "order of rows": ("'sequence.field' = 'x'", "'x'.* id, v, at, n"),
    "an aggregate": (
        "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'",
        "'fields.v.aggregate-function' = 'sum' does not fit column 'v' of type STRING: it takes TINYINT",
    ),
    "a compression": (
        "'file.format' = 'avro', 'file.compression' = 'snappy'",
        "'snappy' does not go with .* 'avro'",
    ),
    "a compression of some files": (
        "'file.format.per.level' = '0:avro', 'file.compression.per.level' = '5:snappy', 'file.compression' = 'gzip'",
        "'gzip' does not go with .* 'avro'",
    ),
    "a compression of changelogs": (
        "'changelog-file.format' = 'orc', 'changelog-file.compression' = 'brotli'",
        "'brotli' does not go with .* 'orc'",
    ),
}


@pytest.mark.parametrize(("options", "told"), WRONG.values(), ids=WRONG)
def test_create_and_alter_refuse_a_column_that_does_not_fit(lake: Lake, options: str, told: str) -> None:
    with pytest.raises(LakelogError, match=told):
        lake.sql(f"create table db.t {COLUMNS} using lakelog tblproperties ({options})")
    lake.sql(f"create table db.t {COLUMNS} using lakelog")
    before = lake.table("db.t").options
    with pytest.raises(LakelogError, match=told):
        lake.sql(f"alter table db.t set tblproperties ({options})")
    assert lake.table("db.t").options == before


def test_a_table_without_a_key_has_the_same_rule(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match=r"and it is STRING: add such a column first"):
        lake.sql("create table db.t (v string) using lakelog tblproperties ('record-level.time-field' = 'v')")


@pytest.mark.parametrize(
    ("options", "change", "told"),
    [
        ("'record-level.time-field' = 'n', 'record-level.expire-time' = '1 d'", "n type string", "'n' .* it is STRING"),
        ("'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'", "n type string", "does not fit"),
        ("'watermark.column' = 'n'", "n type string", "the column is string"),
    ],
)
def test_a_column_keeps_a_type_that_fits(lake: Lake, options: str, change: str, told: str) -> None:
    lake.sql(f"create table db.t {COLUMNS} using lakelog tblproperties ({options})")
    with pytest.raises(InvalidOption, match=told):
        lake.sql(f"alter table db.t alter column {change}")


def test_columns_that_fit_are_taken_together_and_apart(lake: Lake) -> None:
    lake.sql(f"create table db.t {COLUMNS} using lakelog")
    lake.sql("alter table db.t set tblproperties ('record-level.time-field' = 'n')")
    lake.sql("alter table db.t set tblproperties ('record-level.expire-time' = '1 d')")
    with pytest.raises(InvalidOption, match=r"needs the column"):
        lake.sql("alter table db.t unset tblproperties ('record-level.time-field')")
    lake.sql("alter table db.t unset tblproperties ('record-level.time-field', 'record-level.expire-time')")
    lake.sql(
        "alter table db.t set tblproperties ('record-level.time-field' = 'at', 'record-level.expire-time' = '1 d')"
    )

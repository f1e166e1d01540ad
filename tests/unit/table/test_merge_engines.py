"""Tables of the other merge engines, through the lake: created, written, compacted, refused with a log."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidSchema, LakelogError, UnsupportedFeature


def create(tmp_path, options: str, columns: str = "id int, amount bigint, name string"):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t ({columns}, primary key (id)) using lakelog tblproperties ({options})")
    return lake.table("db.t")


def write(table, kinds: list[str] | None = None, **columns: list) -> None:
    rows = pa.table(columns)
    table.write(rows if kinds is None else rows.append_column("_row_kind", pa.array(kinds)), missing="null")


def read(table) -> list[dict]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_an_aggregation_goes_on_from_write_to_write(tmp_path) -> None:
    table = create(tmp_path, "'merge-engine' = 'aggregation', 'fields.amount.aggregate-function' = 'sum'")
    for at in range(7):
        write(table, id=[1, 1, 2], amount=[1, 2, at], name=["a", None, None])
    assert read(table) == [{"id": 1, "amount": 21, "name": "a"}, {"id": 2, "amount": 21, "name": None}]


def test_a_first_row_is_seen_after_its_write_and_stays(tmp_path) -> None:
    table = create(tmp_path, "'merge-engine' = 'first-row'")
    write(table, id=[1], amount=[1], name=["first"])
    write(table, id=[1, 2], amount=[2, 3], name=["late", "other"])
    assert [row["name"] for row in read(table)] == ["first", "other"]
    with pytest.raises(InvalidSchema, match="merge engine 'first-row' accepts only inserts"):
        write(table, ["-D"], id=[1], amount=[1], name=["first"])
    assert [row["name"] for row in read(table)] == ["first", "other"]


def test_columns_that_are_not_written_are_not_updated(tmp_path) -> None:
    table = create(tmp_path, "'merge-engine' = 'partial-update'")
    write(table, id=[1], amount=[5])
    write(table, id=[1], name=["x"])
    assert read(table) == [{"id": 1, "amount": 5, "name": "x"}]


def test_the_row_kind_field_deletes(tmp_path) -> None:
    table = create(tmp_path, "'rowkind.field' = 'op'", "id int, op string")
    write(table, id=[1, 2, 1], op=["+I", "+I", "-D"])
    assert read(table) == [{"id": 2, "op": "+I"}]
    with pytest.raises(
        InvalidSchema, match="column 'op' holds the row kind of table db.t, but the rows do not have it"
    ):
        write(table, id=[3])


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            "'log-store.enabled' = 'true', 'log.content' = 'input', 'merge-engine' = 'aggregation'",
            InvalidOption,
            "'merge-engine'",
        ),
        (
            "'log-store.enabled' = 'true', 'log.content' = 'input', 'sequence.field' = 'amount'",
            InvalidOption,
            "'sequence.field'",
        ),
        ("'sequence.field' = 'amuont'", InvalidSchema, "did you mean 'amount'"),
        ("'merge-engine' = 'first-row', 'sequence.field' = 'amount'", InvalidOption, "'first-row'"),
        (
            "'merge-engine' = 'aggregation', 'fields.name.aggregate-function' = 'sum'",
            InvalidOption,
            "does not fit column 'name'",
        ),
        (
            "'merge-engine' = 'aggregation', 'fields.name.aggregate-function' = 'hll_sketch'",
            UnsupportedFeature,
            "'hll_sketch' of column 'name'",
        ),
        (
            "'merge-engine' = 'aggregation', 'aggregation.remove-record-on-delete' = 'true', "
            "'fields.name.ignore-retract' = 'true'",
            InvalidOption,
            "contradict",
        ),
        (
            "'merge-engine' = 'partial-update', 'fields.amount.aggregate-function' = 'sum'",
            InvalidOption,
            "needs a sequence group",
        ),
        ("'merge-engine' = 'partial-update', 'fields.amount.sequence-group' = 'id'", InvalidOption, "primary key"),
        (
            "'merge-engine' = 'partial-update', 'fields.amount.sequence-group' = 'name', "
            "'partial-update.remove-record-on-sequence-group' = 'name'",
            InvalidOption,
            "no sequence group",
        ),
        (
            "'merge-engine' = 'partial-update', 'ignore-delete' = 'true', "
            "'partial-update.remove-record-on-delete' = 'true'",
            InvalidOption,
            "'ignore-delete'",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_before_the_table_is_made(tmp_path, options, error, said) -> None:
    with pytest.raises(error, match=said):
        create(tmp_path, options)
    with pytest.raises(LakelogError):
        connect(warehouse=str(tmp_path / "warehouse")).table("db.t")

"""What the ``arrow`` format does beside the contract: many changes a record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.logstore.base import Records
from lakelog.logstore.encoding.record_format import Messages
from lakelog.logstore.formats import log_format
from lakelog.paimon.rows.row_kind import DELETE, INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE

FORM = log_format("arrow")
ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def packed(rows: pa.RecordBatch, kinds: list[int], mode: str = "all", keys: tuple[str, ...] = ("id",)) -> Messages:
    places = {0: np.arange(rows.num_rows)}
    return FORM.messages(rows, np.array(kinds, np.int8), mode, keys, b"h", places)[0]


def batch(ids: list[int], names: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": ids, "name": names}, schema=ROWS)


def decoded(records: Records, schema: pa.Schema = ROWS) -> list[tuple[object, ...]]:
    found = FORM.decode(records.values, schema)
    return list(zip(*(found.column(n).to_pylist() for n in (ROW_KIND_COLUMN, *schema.names)), strict=True))


def test_all_rows_of_a_bucket_lie_in_one_record_that_any_arrow_reader_reads() -> None:
    made = packed(batch([1, 1, 1, 2], ["a", "a", "b", "x"]), [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE])
    assert made.records.keys.to_pylist() == [None]
    assert made.record_of_row.tolist() == [0, 0, 0, 0]
    assert made.change_of_row.tolist() == [0, 1, 1, 2], "both rows of an update have its place"
    read = pa.ipc.open_stream(made.records.values[0].as_py()).read_all()
    assert read.to_pydict() == {"id": [1, 1, 1, 2], "name": ["a", "a", "b", "x"], "_row_kind": [0, 1, 2, 3]}


def test_an_upsert_log_leaves_old_images_out() -> None:
    made = packed(batch([1, 1, 2], ["a", "b", "x"]), [UPDATE_BEFORE, UPDATE_AFTER, DELETE], mode="upsert")
    assert decoded(made.records) == [("+I", 1, "b"), ("-D", 2, "x")]
    assert made.change_of_row.tolist() == [0, 0, 1]


def test_each_bucket_has_records_of_its_own() -> None:
    rows, kinds = batch([1, 2, 3], ["a", "b", "c"]), np.zeros(3, np.int8)
    made = FORM.messages(rows, kinds, "all", ["id"], b"h", {0: np.array([0, 2]), 3: np.array([1])})
    assert {b: decoded(m.records) for b, m in made.items()} == {
        0: [("+I", 1, "a"), ("+I", 3, "c")],
        3: [("+I", 2, "b")],
    }


def test_records_are_cut_between_changes_by_number_and_by_size() -> None:
    count = 20_000
    rows = batch([i // 2 for i in range(count)], ["x"] * count)
    made = packed(rows, [UPDATE_BEFORE, UPDATE_AFTER] * (count // 2))
    sizes = [len(FORM.split(None, v)) for v in made.records.values.to_pylist()]
    assert sizes == [8192, 1808]
    order = made.record_of_row * FORM.changes_per_record + made.change_of_row
    assert (np.diff(order[::2]) > 0).all() and (order[::2] == order[1::2]).all()
    uneven = packed(batch(list(range(300)), ["y" * 20_000] * 100 + [""] * 200), [INSERT] * 300)
    assert max(map(len, uneven.records.values.to_pylist())) < 1_000_000
    assert [row[1] for row in decoded(uneven.records)] == list(range(300))


def test_a_record_is_split_into_its_changes() -> None:
    made = packed(batch([1, 1, 2], ["a", "b", "x"]), [UPDATE_BEFORE, UPDATE_AFTER, DELETE])
    parts = FORM.split(None, made.records.values[0].as_py())
    assert [key for key, _ in parts] == [b'{"id":1}', b'{"id":2}']
    singles, _ = FORM.encode(*changes_of_parts(), "all", ["id"], b"h")
    assert [value for _, value in parts] == singles.values.to_pylist()
    assert FORM.split(*parts[0]) == [parts[0]], "a change by itself is not split again"


def changes_of_parts() -> tuple[pa.RecordBatch, np.ndarray]:
    return batch([1, 1, 2], ["a", "b", "x"]), np.array([UPDATE_BEFORE, UPDATE_AFTER, DELETE], np.int8)


def test_the_inverse_of_a_record_undoes_its_changes_newest_first() -> None:
    made = packed(batch([1, 1, 1, 2], ["a", "a", "b", "x"]), [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE])
    back = FORM.inverse(made.records.values[0].as_py())
    values = pa.array([back], pa.large_binary())
    assert decoded(Records(values, values, b"")) == [
        ("+I", 2, "x"),
        ("-U", 1, "b"),
        ("+U", 1, "a"),
        ("-D", 1, "a"),
    ]


def test_records_from_before_and_after_a_change_of_the_table_are_read_together() -> None:
    old = packed(pa.RecordBatch.from_pydict({"id": pa.array([1], pa.int32()), "gone": ["g"]}), [INSERT])
    new = packed(batch([2], ["b"]), [INSERT])
    both = Records(old.records.keys, pa.concat_arrays([old.records.values, new.records.values]), b"")
    assert decoded(both) == [("+I", 1, None), ("+I", 2, "b")]
    image = FORM.images(old.records.values[0].as_py())[1]
    value = FORM.asserting(FORM.images(new.records.values[0].as_py())[1], image)
    values = pa.array([value], pa.large_binary())
    assert decoded(Records(values, values, b"")) == [("-U", 1, None), ("+U", 2, "b")]


def test_a_damaged_record_is_corrupt() -> None:
    value = packed(batch([1], ["a"]), [INSERT]).records.values[0].as_py()
    other = pa.BufferOutputStream()
    with pa.ipc.new_stream(other, ROWS) as writer:
        writer.write_batch(batch([1], ["a"]))
    for bad in (value[:100], value[:-60], b"\xff\xff\xff\xff", other.getvalue().to_pybytes()):
        with pytest.raises(Corrupt, match="arrow message"):
            FORM.decode(pa.array([bad], pa.large_binary()), ROWS)
    with pytest.raises(Corrupt, match="'name'"):
        FORM.decode(pa.array([value], pa.large_binary()), pa.schema([("name", pa.int64())]))

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidSchema


def write(table, ids, values, kind, **options) -> None:
    table.write(
        pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(values, kind)}), options=options, missing="null"
    )


@pytest.fixture(params=[", primary key (id)", ""])
def widened(tmp_path, request):
    """A handle from before ``int`` became ``bigint``, and one from after it."""
    lake = connect(warehouse=str(tmp_path))
    lake.sql(f"create table db.t (id int, n int{request.param}) using lakelog")
    old = lake.table("db.t")
    write(old, [1], [7], pa.int32())
    other = connect(warehouse=str(tmp_path))
    other.sql("alter table db.t alter column n type bigint")
    return old, other.table("db.t")


def test_an_old_handle_reads_values_that_fit_its_type(widened) -> None:
    old, new = widened
    write(new, [2], [8], pa.int64())
    assert sorted(old.scan().to_arrow().column("n").to_pylist()) == [7, 8]


@pytest.mark.parametrize("value", [2**31, 2**40 + 7, -(2**40)])
@pytest.mark.parametrize("filter", [None, "n = 7", "n < 0", "n = -2147483648", "id > 0"])
def test_an_old_handle_never_reads_wrapped_integers(widened, value, filter) -> None:
    old, new = widened
    write(new, [2], [value], pa.int64())
    try:
        found = old.scan(filter=filter).to_arrow().to_pylist()
    except InvalidSchema as why:
        assert "column 'n'" in str(why) and "open the table again" in str(why)  # noqa: PT017
    else:
        # the file with the large value was left out by its statistics
        assert filter and found in ([{"id": 1, "n": 7}], [])
        assert new.scan(filter=filter).to_arrow().to_pylist() == found
    assert old.scan(columns=["id"]).to_arrow().num_rows == 2
    assert sorted(new.scan().to_arrow().column("n").to_pylist()) == sorted([7, value])


def test_an_old_handle_says_so_after_a_compaction_too(widened) -> None:
    old, new = widened
    write(new, [2], [2**40], pa.int64())
    new.compact(full=True)
    with pytest.raises(InvalidSchema, match="open the table again"):
        old.scan().to_arrow()

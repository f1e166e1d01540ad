"""What a table hands to the engine when it is asked for a Spark DataFrame."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog import connect


class Frame:
    """The rows of a scan as an engine has them before it applies the condition of the query itself."""

    def __init__(self, scan: Any, condition: str | None) -> None:
        self.rows, self.condition = scan.to_arrow(), condition

    def where(self, _: str) -> Frame:
        return self


def test_conditions_on_floats_are_left_to_spark(tmp_path) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("create table db.t (id int, f double) using lakelog")
        table = lake.table("db.t")
        table.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "f": [1.0, float("nan"), 9.0]}))
        table._to_dataframe = lambda _, scan, condition: Frame(scan, condition)
        # NaN is above all numbers there
        frame = table.to_spark(filter="f > 5")
        assert frame.condition is None and frame.rows["id"].to_pylist() == [1, 2, 3]
        assert table.to_spark(filter="id > 1").condition == "id > 1"

"""A table whose log has format ``arrow``: packed rows keep the protocol's promises."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import UnsupportedFeature
from lakelog.lake.table import Table


def make(tmp_path: Path, mode: str = "all", key: str = ", primary key (id)", buckets: int = 2) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    more = ", 'bucket-key' = 'id'" if not key else ""
    lake.sql(
        f"create table db.t (id int, name string{key}) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'log-store.data-format' = 'arrow', 'bucket' = '{buckets}', 'log.changelog-mode' = '{mode}'{more})"
    )
    return lake.table("db.t")


def rows(*changes: tuple[str, int, str]) -> pa.Table:
    kinds, ids, names = (list(c) for c in zip(*changes, strict=True))
    return pa.table({"id": pa.array(ids, pa.int32()), "name": names, "_row_kind": kinds})


def tail(table: Table, start: str = "earliest") -> list[tuple[str, int, str]]:
    batches = pa.Table.from_batches(table.tail(start, stop="latest"))
    return list(zip(*(batches.column(c).to_pylist() for c in ("_row_kind", "id", "name")), strict=True))


def fold(table: Table) -> dict[int, str]:
    state: dict[int, str] = {}
    for kind, key, name in tail(table):
        state.pop(key, None)
        if kind[0] == "+":
            state[key] = name
    return state


def files(table: Table) -> dict[int, str]:
    return {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}


def test_rows_of_one_record_are_ordered_in_the_files(tmp_path: Path) -> None:
    table = make(tmp_path, "upsert", buckets=1)
    with table.writer() as writer:
        writer.write(rows(*[("+I", i % 7, f"v{i}") for i in range(10_000)]))
        writer.write(rows(("+I", 3, "last")))
    want = {i % 7: f"v{i}" for i in range(10_000)} | {3: "last"}
    assert files(table) == fold(table) == want


def test_offsets_without_room_for_rows_within_a_record_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a log that makes them from several numbers may be."""
    table = make(tmp_path)
    monkeypatch.setattr("lakelog.logstore.embedded.appender._Appended.offsets", lambda _: pa.array([1 << 51]))
    with pytest.raises(UnsupportedFeature, match="debezium-json"), table.writer() as writer:
        writer.write(rows(("+I", 1, "a")))

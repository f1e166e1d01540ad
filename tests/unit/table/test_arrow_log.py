"""A table whose log has format ``arrow``: packed rows keep the protocol's promises."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import UnsupportedFeature
from log_tables import files, folded, make, rows

ARROW = ", 'log-store.data-format' = 'arrow'"


def test_rows_of_one_record_are_ordered_in_the_files(tmp_path: Path) -> None:
    table, ids = make(tmp_path, ARROW), [number % 7 for number in range(10_000)]
    names = [f"v{number}" for number in range(10_000)]
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array(ids, pa.int32()), "name": names}))
        writer.write(rows(3, name="last"))
    want = dict(zip(ids, names, strict=True)) | {3: "last"}
    assert files(table) == folded(table) == sorted(want.items())


def test_offsets_without_room_for_rows_within_a_record_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a log that makes them from several numbers may be."""
    table = make(tmp_path, ARROW)
    monkeypatch.setattr("lakelog.logstore.embedded.appender._Appended.offsets", lambda _: pa.array([1 << 51]))
    with pytest.raises(UnsupportedFeature, match="debezium-json"), table.writer() as writer:
        writer.write(rows(1))

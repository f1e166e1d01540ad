"""Programs follow the changes of a table, and go on exactly where they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_servers import RunningServer, running_server
from lakelog.lake import Lake


@contextmanager
def changes(server: RunningServer, **request: str) -> Iterator[Any]:
    with server.client() as client:
        reader = client.do_get(flight.Ticket(orjson.dumps({"changes": {"table": "db.t", **request}})))
        yield reader
        reader.cancel()


def next_rows(reader: Any) -> tuple[list[dict[str, Any]], str]:
    """The next batch with rows, and its position."""
    while True:
        chunk = reader.read_chunk()
        if chunk.data.num_rows:
            return chunk.data.to_pylist(), chunk.app_metadata.to_pybytes().decode()


def test_a_stream_has_what_is_there_and_what_comes(server: RunningServer, lake: Lake) -> None:
    with changes(server, position="earliest") as reader:
        assert [row["id"] for row in next_rows(reader)[0]] == [1, 2, 3]
        lake.table("db.t").delete("id = 2")
        rows, _ = next_rows(reader)
        assert [(row["id"], row["_row_kind"]) for row in rows] == [(2, "-D")]


def test_the_first_batch_has_the_position_of_the_start(server: RunningServer, lake: Lake) -> None:
    with changes(server) as reader:
        first = reader.read_chunk()
    assert first.data.num_rows == 0
    lake.table("db.t").write(pa.table({"id": [4], "name": ["rum"]}))
    with changes(server, position=first.app_metadata.to_pybytes().decode()) as reader:
        assert [row["id"] for row in next_rows(reader)[0]] == [4]


def test_a_stream_goes_on_at_another_server(lake: Lake, tmp_path: Path) -> None:
    position, seen = "earliest", []
    for number in range(10, 13):
        lake.table("db.t").write(pa.table({"id": [number], "name": ["x"]}))
        with running_server(tmp_path) as server, changes(server, position=position) as reader:
            while number not in seen:
                rows, position = next_rows(reader)
                seen += [row["id"] for row in rows]
    assert seen == [1, 2, 3, 10, 11, 12]


def test_a_stream_ends_when_the_server_is_stopped(lake: Lake, tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        reader = client.do_get(flight.Ticket(orjson.dumps({"changes": {"table": "db.t"}})))
        reader.read_chunk()
        server.server.close()
        with pytest.raises(StopIteration):
            while True:
                reader.read_chunk()


def test_the_position_of_another_table_is_refused(server: RunningServer, lake: Lake) -> None:
    other = lake.create_table("db.other", {"id": "bigint"}, options={"log-store.enabled": "true"})
    position = other.tail(start="earliest").position
    with pytest.raises(pa.ArrowInvalid, match="InvalidRequest"), changes(server, position=position) as reader:
        reader.read_chunk()

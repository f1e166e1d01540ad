"""Programs write: a batch is answered when it is durable, and is in the table once however often it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_servers import PASSWORD, TOKEN, RunningServer, bearer, running_server
from lakelog.lake import Lake
from lakelog.service.access.users import Users
from lakelog.service.serve.settings import ServeLimits
from lakelog.sql.runtime.statement import Privilege

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int, name: str = "x") -> pa.RecordBatch:
    return pa.record_batch([list(ids), [name] * len(ids)], schema=SCHEMA)


class Stream:
    """A client's stream of writes: one batch at a time."""

    def __init__(self, client: Any, options: Any = None, table: str = "db.t", writer: str = "w") -> None:
        request = orjson.dumps({"write": {"table": table, "writer": writer}})
        self.writer, self.reader = client.do_put(flight.FlightDescriptor.for_command(request), SCHEMA, options)
        self.first = self.answer()

    def answer(self) -> dict[str, Any]:
        answer = self.reader.read()
        if answer is None:
            self.writer.close()  # raises the error of the call
        return orjson.loads(answer.to_pybytes())  # type: ignore[no-any-return]

    def send(self, batch: pa.RecordBatch, epoch: int | str) -> dict[str, Any]:
        self.writer.write_with_metadata(batch, str(epoch).encode())
        return self.answer()

    def close(self) -> None:
        self.writer.done_writing()
        self.writer.close()


@contextmanager
def stream(server: RunningServer, **more: Any) -> Iterator[Stream]:
    with server.client() as client:
        one = Stream(client, **more)
        yield one
        one.close()


def test_a_batch_is_in_the_table_when_it_is_answered(server: RunningServer, lake: Lake) -> None:
    with stream(server) as writes:
        assert writes.first == {"epoch": -1, "state": "open"}
        assert writes.send(rows(3, 4, name="new"), 7) == {"epoch": 7, "state": "written", "rows": 2}
        assert lake.table("db.t").count() == 4
        assert lake.table("db.t").count("name = 'new'") == 2


def test_a_batch_that_is_sent_again_is_known(server: RunningServer, lake: Lake) -> None:
    with stream(server) as writes:
        writes.send(rows(10), 1)
    with stream(server) as writes:
        assert writes.first["epoch"] == 1
        assert writes.send(rows(10, name="again"), 1)["state"] == "known"
        assert writes.send(rows(11), 2)["state"] == "written"
    assert lake.table("db.t").count("name = 'again'") == 0
    assert lake.table("db.t").count() == 5


def test_a_writer_goes_on_at_another_server(lake: Lake, tmp_path: Path) -> None:
    log = lake.create_table("db.log", {"id": "bigint", "name": "string"})
    for start in (0, 2):
        with running_server(tmp_path) as server, stream(server, table="db.log") as writes:
            assert writes.first["epoch"] == start - 1
            for epoch in range(start + 2):
                expected = "known" if epoch < start else "written"
                assert writes.send(rows(epoch), epoch)["state"] == expected
    assert sorted(log.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_rows_may_be_deleted(server: RunningServer, lake: Lake) -> None:
    schema = pa.schema([*SCHEMA, ("_row_kind", pa.string())])
    request = orjson.dumps({"write": {"table": "db.t", "writer": "w"}})
    with server.client() as client:
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(request), schema)
        writer.write_with_metadata(pa.record_batch([[1], [None], ["-D"]], schema=schema), b"1")
        writer.done_writing()
        assert [orjson.loads(reader.read().to_pybytes())["state"] for _ in range(2)] == ["open", "written"]
        writer.close()
    assert lake.table("db.t").count() == 2


def test_the_newer_of_two_streams_of_a_writer_goes_on(server: RunningServer, lake: Lake) -> None:
    with server.client() as client:
        old = Stream(client)
        old.send(rows(10), 1)
        with stream(server) as new:
            assert new.first["epoch"] == 1
            with pytest.raises(flight.FlightError, match="Fenced"):
                old.send(rows(11), 2)
            new.send(rows(12), 2)
    assert lake.table("db.t").count("id > 9") == 2


def test_writers_of_two_users_are_two(lake: Lake, tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.put("ann", Privilege.WRITE, PASSWORD)
    users.put("eve", Privilege.READ, PASSWORD)
    with running_server(tmp_path, users_file=users.path, token=TOKEN) as server, server.client() as client:
        ann, eve = (
            flight.FlightCallOptions(headers=[client.authenticate_basic_token(name, PASSWORD)])
            for name in ("ann", "eve")
        )
        one = Stream(client, ann)
        one.send(rows(10), 5)
        with stream(server, options=bearer(TOKEN)) as other:
            assert other.first["epoch"] == -1
        one.send(rows(11), 6)
        one.close()
        with pytest.raises(flight.FlightUnauthorizedError, match="needs the role 'write'; eve has 'read'"):
            Stream(client, eve)


def test_a_batch_that_does_not_fit_ends_the_stream_and_no_other(server: RunningServer, lake: Lake) -> None:
    with server.client() as client:
        for epoch in ("", "-1", "x", 1 << 63):
            with pytest.raises(pa.ArrowInvalid, match="is no epoch"):
                Stream(client).send(rows(10), epoch)
        null = pa.record_batch([pa.array([None], pa.int64()), ["x"]], schema=SCHEMA)
        with pytest.raises(pa.ArrowInvalid, match="InvalidSchema"):
            Stream(client).send(null, 1)
    with stream(server) as writes:
        assert writes.send(rows(10), 1)["state"] == "written"
    assert lake.table("db.t").count() == 4


def test_a_batch_has_a_maximum_size(lake: Lake, tmp_path: Path) -> None:
    running = running_server(tmp_path, limits=ServeLimits(batch_bytes=1_000))
    large = pytest.raises(pa.ArrowInvalid, match="the maximum is 1.0 kB")
    with running as server, server.client() as client, large:
        Stream(client).send(rows(*range(1_000)), 1)


def test_the_driver_ingests_rows(server: RunningServer, lake: Lake) -> None:
    batches = pa.Table.from_batches([rows(*range(100)), rows(*range(100, 200))])
    with server.adbc() as cursor:
        assert cursor.adbc_ingest("t", batches, mode="append", db_schema_name="db") == 200
        with pytest.raises(Exception, match="exists"):
            cursor.adbc_ingest("t", batches, mode="create", db_schema_name="db")
        with pytest.raises(Exception, match="use the mode 'append'"):
            cursor.adbc_ingest("t", batches, mode="replace", db_schema_name="db")
        with pytest.raises(Exception, match="NOT_FOUND"):
            cursor.adbc_ingest("nothing", batches, mode="append", db_schema_name="db")
    assert lake.table("db.t").count() == 200
    assert len(lake.table("db.t").snapshots()) == 2

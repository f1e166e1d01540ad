"""Commands of Flight SQL: what others write is read, and what nobody should send is refused by name."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.service.serve.messages import LARGEST_COMMAND, command_of, message, packed

URL = "type.googleapis.com/arrow.flight.protocol.sql."


def test_a_command_comes_back_as_it_was_packed() -> None:
    sent = message("CommandGetTables", catalog="", table_types=["TABLE", "VIEW"], include_schema=True)
    name, command = command_of(packed(sent))
    assert (name, list(command.table_types), command.include_schema) == ("CommandGetTables", ["TABLE", "VIEW"], True)
    assert command.HasField("catalog") and not command.HasField("db_schema_filter_pattern")


def test_the_bytes_of_a_query_are_those_of_the_specification() -> None:
    query = b"\x0a\x08select 1"
    assert message("CommandStatementQuery", query="select 1").SerializeToString() == query
    data = any_pb2.Any(type_url=f"{URL}CommandStatementQuery", value=query).SerializeToString()
    assert command_of(data)[1].query == "select 1"


def test_an_own_request_is_json() -> None:
    assert command_of(b'{"changes": {"table": "db.t"}}') == ("", {"changes": {"table": "db.t"}})


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (b"", UnsupportedFeature, "command ''"),
        (b"\xff\xff\xff", InvalidRequest, "cannot be read"),
        (b"{not json", InvalidRequest, "cannot be read"),
        (b"x" * (LARGEST_COMMAND + 1), InvalidRequest, "the maximum is"),
        (any_pb2.Any(type_url=f"{URL}CommandGetXdbcTypeInfo").SerializeToString(), UnsupportedFeature, "XdbcTypeInfo"),
        (any_pb2.Any(type_url="CommandStatementQuery").SerializeToString(), UnsupportedFeature, "StatementQuery"),
        (
            any_pb2.Any(type_url=f"{URL}CommandStatementQuery", value=b"\x0a\x7f").SerializeToString(),
            InvalidRequest,
            "cannot be read",
        ),
        (
            any_pb2.Any(type_url=f"{URL}CommandStatementQuery", value=b"\x0a\x01\xff").SerializeToString(),
            InvalidRequest,
            "cannot be read",
        ),
    ],
    ids=["empty", "garbage", "json", "large", "unknown", "no url", "torn", "no text"],
)
def test_other_bytes_are_refused(data: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        command_of(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_another_error(data: bytes) -> None:
    for sent in (data, any_pb2.Any(type_url=f"{URL}CommandGetTables", value=data).SerializeToString()):
        with contextlib.suppress(InvalidRequest, UnsupportedFeature):
            command_of(sent)

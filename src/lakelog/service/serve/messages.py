"""The messages of Arrow Flight SQL, and of lakelog's own requests.

A command of Flight SQL is a protobuf ``Any``. Those that this server knows are declared here with the numbers of
``FlightSql.proto`` (Apache Arrow, ``format/``); protobuf's runtime parses them. lakelog's own requests are JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import orjson
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.io.quantities import format_bytes

LARGEST_COMMAND: Final = 1 << 20
"""Maximum bytes of a command, a ticket or the body of an action."""
_PACKAGE: Final = "arrow.flight.protocol.sql"
_URL: Final = f"type.googleapis.com/{_PACKAGE}."
_KINDS: Final = descriptor_pb2.FieldDescriptorProto
_TEXT, _BYTES, _BOOL = _KINDS.TYPE_STRING, _KINDS.TYPE_BYTES, _KINDS.TYPE_BOOL
_INT32, _INT64, _UINT32 = _KINDS.TYPE_INT32, _KINDS.TYPE_INT64, _KINDS.TYPE_UINT32
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, Any]]]] = {
    "ActionClosePreparedStatementRequest": {"prepared_statement_handle": (1, _BYTES)},
    "ActionCreatePreparedStatementRequest": {"query": (1, _TEXT), "transaction_id": (2, _BYTES)},
    "ActionCreatePreparedStatementResult": {
        "prepared_statement_handle": (1, _BYTES),
        "dataset_schema": (2, _BYTES),
        "parameter_schema": (3, _BYTES),
    },
    "CommandGetCatalogs": {},
    "CommandGetDbSchemas": {"catalog": (1, _TEXT), "db_schema_filter_pattern": (2, _TEXT)},
    "CommandGetPrimaryKeys": {"catalog": (1, _TEXT), "db_schema": (2, _TEXT), "table": (3, _TEXT)},
    "CommandGetSqlInfo": {"info": (1, [_UINT32])},
    "CommandGetTableTypes": {},
    "CommandGetTables": {
        "catalog": (1, _TEXT),
        "db_schema_filter_pattern": (2, _TEXT),
        "table_name_filter_pattern": (3, _TEXT),
        "table_types": (4, [_TEXT]),
        "include_schema": (5, _BOOL),
    },
    "CommandPreparedStatementQuery": {"prepared_statement_handle": (1, _BYTES)},
    "CommandStatementIngest": {
        "table_definition_options": (1, "TableDefinitionOptions"),
        "table": (2, _TEXT),
        "schema": (3, _TEXT),
        "catalog": (4, _TEXT),
        "temporary": (5, _BOOL),
        "transaction_id": (6, _BYTES),
    },
    "CommandStatementQuery": {"query": (1, _TEXT), "transaction_id": (2, _BYTES)},
    "DoPutUpdateResult": {"record_count": (1, _INT64)},
    "TableDefinitionOptions": {"if_not_exist": (1, _INT32), "if_exists": (2, _INT32)},
    "TicketStatementQuery": {"statement_handle": (1, _BYTES)},
}


@functools.cache
def _classes() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lakelog_flight_sql.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number, label=_KINDS.LABEL_OPTIONAL)
            if isinstance(kind, list):
                added.label, added.type = _KINDS.LABEL_REPEATED, kind[0]
            elif isinstance(kind, str):
                added.type, added.type_name = _KINDS.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type, added.proto3_optional = kind, True
                added.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


def message(name: str, **fields: Any) -> Any:
    """A message of Flight SQL by its name."""
    return _classes()[name](**fields)


def packed(one: Any) -> bytes:
    """A message as the bytes of an ``Any``."""
    name = one.DESCRIPTOR.name
    data: bytes = any_pb2.Any(type_url=f"{_URL}{name}", value=one.SerializeToString()).SerializeToString()
    return data


def command_of(data: bytes) -> tuple[str, Any]:
    """The name and the message of a command; for lakelog's own requests "", and what the JSON has.

    Raises InvalidRequest for bytes that are too many or no message, UnsupportedFeature for an unknown command.
    """
    if len(data) > LARGEST_COMMAND:
        raise InvalidRequest(
            f"the command has {format_bytes(len(data))}, and the maximum is {format_bytes(LARGEST_COMMAND)}: send it "
            "in parts"
        )
    try:
        if data.startswith(b"{"):
            return "", orjson.loads(data)
        wrapped = any_pb2.Any.FromString(data)
        name = wrapped.type_url.removeprefix(_URL)
        if name in _classes() and wrapped.type_url.startswith(_URL):
            return name, _classes()[name].FromString(wrapped.value)
    except (DecodeError, ValueError) as wrong:
        raise InvalidRequest(f"the command cannot be read: {wrong}. Send a command of Flight SQL, or JSON") from None
    raise UnsupportedFeature(
        f"the command '{wrapped.type_url[:100]}' is not known here: the guide lists the commands that are"
    )

"""The Flight server: calls of Flight SQL, and lakelog's own requests, each for an identified user."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
from pyarrow import flight

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.service.access.gate import Access
from lakelog.service.access.identity import Identity
from lakelog.service.access.users import Users
from lakelog.service.loopback import LOOPBACK, is_loopback
from lakelog.service.serve.callers import HEADERS, Callers, NoTokens
from lakelog.service.serve.calls import AuditedCall, CallStream, Slots
from lakelog.service.serve.changes import change_stream
from lakelog.service.serve.failures import in_flight
from lakelog.service.serve.messages import command_of, message, packed
from lakelog.service.serve.metadata import METADATA
from lakelog.service.serve.settings import ServeSettings
from lakelog.service.serve.statements import Statements
from lakelog.service.serve.writes import Writes, WriteStream, epoch_of
from lakelog.service.terminal.audit import AuditLog

_STOP_S: Final = 5.0
_CREATE: Final = "CreatePreparedStatement"
_CLOSE: Final = "ClosePreparedStatement"
_QUERIES: Final = {"CommandStatementQuery", "CommandPreparedStatementQuery", "TicketStatementQuery"}


class Server(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Answers calls in gRPC's threads. A handle of a prepared statement is its text, so the server keeps none."""

    def __init__(self, settings: ServeSettings) -> None:
        """Opens the port. Raises InvalidRequest for unsafe settings, or a port that is taken."""
        settings.check()
        host = LOOPBACK if settings.host == "localhost" else settings.host
        users = Users(settings.users_file) if settings.users_file else None
        if users is not None:
            users.read()
        state = settings.state.expanduser()
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._audit = AuditLog(state / "serve-audit.jsonl")
        self._callers = Callers(Access(users, settings.token), self._audit, lambda: (host, self.port))
        self._statements = Statements(settings)
        limits = settings.limits
        self._writes = Writes(self._statements, limits)
        self._slots = Slots("statements", limits.statements, limits.wait_s)
        self._tailing = Slots("streams of changes", limits.tails, limits.wait_s)
        self._stopping = threading.Event()
        self._writing = Slots("writes", limits.writes, limits.wait_s)
        shown = f"[{host}]" if ":" in host else host
        self._scheme = "grpc" if settings.tls_certificate is None else "grpc+tls"
        try:
            _check_free(host, settings.port)
            super().__init__(
                f"{self._scheme}://{shown}:{settings.port}",
                auth_handler=NoTokens(),
                middleware={HEADERS: self._callers},
                **_tls(settings),
            )
        except (pa.ArrowException, OSError) as refused:
            self._callers.close()
            raise InvalidRequest(f"cannot listen on {shown}:{settings.port}: choose another --port") from refused
        self.is_over = False
        """True after ``close``, if no call runs any more."""
        self.address = f"{self._scheme}://{'localhost' if is_loopback(host) else shown}:{self.port}"

    def close(self) -> None:
        """Ends the streams and the server. A stream of writes whose client sends nothing is left after some seconds."""
        self._stopping.set()
        ending = threading.Thread(target=self.shutdown, name="shutdown", daemon=True)
        ending.start()
        ending.join(_STOP_S)
        self.is_over = not ending.is_alive()
        self._writes.close()
        self._statements.close()
        self._callers.close()

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """The schema of an answer, and the ticket for its rows."""
        with in_flight():
            identity = self._callers.identity(context)
            name, command = command_of(descriptor.command or b"")
            schema, ticket = self._schema_of(identity, name, command), descriptor.command
            if name in _QUERIES:
                ticket = packed(message("TicketStatementQuery", statement_handle=_text_of(command).encode()))
            endpoint = flight.FlightEndpoint(ticket, [])
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        """The schema of an answer."""
        with in_flight():
            identity = self._callers.identity(context)
            return flight.SchemaResult(self._schema_of(identity, *command_of(descriptor.command or b"")))

    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """The rows of a statement, or of metadata."""
        with in_flight():
            identity = self._callers.identity(context)
            name, command = command_of(ticket.ticket)
            if name in _QUERIES:
                return self._query(context, identity, _text_of(command))
            if name in METADATA:
                return flight.RecordBatchStream(METADATA[name].table(self._statements.session(identity.role), command))
            if not name and isinstance(command, dict) and list(command) == ["changes"]:
                return self._changes(context, identity, command["changes"])
            raise UnsupportedFeature(f"the ticket '{name}' has no rows: ask for a FlightInfo first")

    def _changes(self, context: Any, identity: Identity, request: Any) -> flight.FlightDataStream:
        """The endless stream of a table's changes, each batch with the position after it in its ``app_metadata``."""
        with contextlib.ExitStack() as opening:
            text = f"changes {orjson.dumps(request).decode()}"
            call = opening.enter_context(AuditedCall(self._audit, identity, text, context.peer(), "changes"))
            opening.enter_context(self._tailing.taken())
            stream = change_stream(self._statements, identity, request, self._stopping)
            opening.callback(stream.close)
            opened = opening.pop_all()
        batches = _counted_changes(stream.batches(context.is_cancelled), call)
        return flight.GeneratorStream(stream.schema, CallStream(batches, opened))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Rows of a client: a stream of batches with epochs, each answered when durable, or an ingest."""
        with in_flight():
            identity = self._callers.identity(context)
            name, command = command_of(descriptor.command or b"")
            text = f"write {command.table}" if name else orjson.dumps(command).decode()
            with AuditedCall(self._audit, identity, text, context.peer(), "write") as call, self._writing.taken():
                if name == "CommandStatementIngest":
                    batches = _counted((chunk.data for chunk in reader), call)
                    rows = self._writes.ingest(identity, command, batches, reader.schema)
                    writer.write(message("DoPutUpdateResult", record_count=rows).SerializeToString())
                elif not name and isinstance(command, dict) and list(command) == ["write"]:
                    with self._writes.stream(identity, command["write"], reader.schema) as stream:
                        self._receive(stream, reader, writer, call)
                else:
                    raise UnsupportedFeature(f"the command '{name}' takes no rows")

    def _receive(self, stream: WriteStream, reader: Any, writer: Any, call: AuditedCall) -> None:
        """Writes the batches of a stream, and answers each. The first answer is the newest epoch in the table."""
        writer.write(orjson.dumps({"epoch": stream.committed, "state": "open"}))
        for chunk in reader:
            epoch, rows = epoch_of(chunk.app_metadata), chunk.data.num_rows
            is_new = stream.write(chunk.data, epoch)
            call.rows += rows if is_new else 0
            state = "written" if is_new else "known"
            writer.write(orjson.dumps({"epoch": epoch, "state": state, "rows": rows}))

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The actions of Flight SQL that are known."""
        with in_flight():
            self._callers.identity(context)
            return [(_CREATE, "Prepares a statement"), (_CLOSE, "Forgets a prepared statement")]

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """Prepares a statement, or forgets it."""
        with in_flight():
            identity = self._callers.identity(context)
            name, command = command_of(action.body.to_pybytes())
            if action.type != _CREATE or name != "ActionCreatePreparedStatementRequest":
                if action.type == _CLOSE:
                    return iter(())
                raise UnsupportedFeature(f"the action '{action.type[:100]}' is not known here")
            schema = self._schema_of(identity, "CommandStatementQuery", command)
            handle = command.query.encode()
            answer = message(
                "ActionCreatePreparedStatementResult",
                prepared_statement_handle=handle,
                dataset_schema=schema.serialize().to_pybytes(),
            )
            return iter([packed(answer)])

    def _schema_of(self, identity: Identity, name: str, command: Any) -> pa.Schema:
        if name in METADATA:
            return METADATA[name].schema(command)
        if name in _QUERIES:
            with self._slots.taken(), self._statements.run(identity.role, _text_of(command)) as rows:
                return rows.schema
        raise UnsupportedFeature(f"the command '{name}' has no answer of rows")

    def _query(self, context: Any, identity: Identity, text: str) -> flight.FlightDataStream:
        """The stream of a statement, which holds a slot until its last batch or the end of the call."""
        with contextlib.ExitStack() as opening:
            call = opening.enter_context(AuditedCall(self._audit, identity, text, context.peer()))
            opening.enter_context(self._slots.taken())
            rows = opening.enter_context(self._statements.run(identity.role, text))
            opened = opening.pop_all()
        return flight.GeneratorStream(rows.schema, CallStream(_counted(rows.batches(), call), opened))


def _counted(batches: Iterator[pa.RecordBatch], call: AuditedCall) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        call.rows += batch.num_rows
        yield batch


def _counted_changes(batches: Iterator[tuple[pa.RecordBatch, bytes]], call: AuditedCall) -> Iterator[Any]:
    for batch, position in batches:
        call.rows += batch.num_rows
        yield batch, position


def _text_of(command: Any) -> str:
    """The text of a query: of a command, or of a handle or ticket that this server has made of one."""
    fields = ("query", "prepared_statement_handle", "statement_handle")
    text: str | bytes = next(getattr(command, name) for name in fields if hasattr(command, name))
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as wrong:
        raise InvalidRequest("the handle is none of this server: prepare the statement again") from wrong


def _check_free(host: str, port: int) -> None:
    """Raises OSError for a port on which a process listens: gRPC would share its calls with that process."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the connections of an ended server may stay
        probe.bind(address)


def _tls(settings: ServeSettings) -> dict[str, Any]:
    if settings.tls_certificate is None or settings.tls_key is None:
        return {}
    pair = (settings.tls_certificate.read_bytes(), settings.tls_key.read_bytes())
    if settings.tls_client_ca is None:
        return {"tls_certificates": [pair]}
    return {
        "tls_certificates": [pair],
        "verify_client": True,
        "root_certificates": settings.tls_client_ca.read_bytes(),
    }

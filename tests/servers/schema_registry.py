"""A schema registry with Confluent's interface, in this process, and messages in its wire format by ``fastavro``."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import fastavro


class SchemaRegistry:
    """Schemas by id, and the versions of subjects. ``refuses`` are the subjects that answer 409 to a new version."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.refuses: set[str] = set()
        self.asked: list[str] = []
        self.authorization: set[str | None] = set()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                owner.asked.append(f"{self.command} {self.path}")
                owner.authorization.add(self.headers.get("Authorization"))
                parts = [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]
                status, body = owner.answer(self.command, parts, json.loads(data) if data else {})
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer  # noqa: N815 - names of the standard library

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, parts: list[str], body: Mapping[str, Any]) -> tuple[int, Any]:
        match method, parts:
            case "GET", ["schemas", "ids", number] if number.isdigit() and 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case "GET", ["subjects", subject, "versions", version] if len(self.subjects.get(subject, ())) >= int(
                version
            ):
                number = self.subjects[subject][int(version) - 1]
                return 200, {"subject": subject, "version": int(version), "id": number, **self.schemas[number - 1]}
            case "POST", ["subjects", subject, "versions"]:
                if subject in self.refuses:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(subject, **body)}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        """Registers a schema (text, or as JSON) and returns its id."""
        entry = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number


def message(number: int, schema: Any, record: Any) -> bytes:
    """A message of a schema (without references to others): a zero byte, the id, and the record."""
    sink = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    sink.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), record)
    return sink.getvalue()

"""A web server on loopback that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request; ``path`` with its query, ``headers`` by small names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class ScriptedHttp:
    """Answers by ``"GET /path"``: a (status, body) for always, or a list of which the last stays. Unknown: 404.

    A body is JSON, or bytes as they are; with status 0 the connection ends without an answer.
    """

    def __init__(self, script: Mapping[str, Any], tls: ssl.SSLContext | None = None) -> None:
        self.script = {key: list(value) if isinstance(value, list) else [value] for key, value in script.items()}
        self.asked: list[Asked] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # an answer is one packet

            def answer(self) -> None:
                owner.answer(self)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of the standard library

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        data = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {key.lower(): value for key, value in request.headers.items()}
        self.asked.append(Asked(request.command, request.path, headers, json.loads(data) if data else None))
        left = self.script.get(f"{request.command} {request.path}", [(404, {"message": "nothing", "code": 404})])
        status, body = left.pop(0) if len(left) > 1 else left[0]
        request.close_connection = status == 0
        if status == 0:
            return
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(status)
        if 300 <= status < 400:
            request.send_header("Location", content.decode())
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def __enter__(self) -> ScriptedHttp:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

"""An S3 server that answers each request as a test wants it: for what real servers do only on a bad day."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[str, str, dict[str, bytes]], int | tuple[int, str] | None]
"""(method, key, objects) → status, or status and error code; None for what a good server does."""


@dataclass
class FakeS3:
    """The server: its URL, what it holds, and the requests that came."""

    endpoint: str
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    answer: Answer = lambda method, key, objects: None

    @property
    def options(self) -> dict[str, str]:
        return {"s3.endpoint": self.endpoint, "s3.access-key": "user", "s3.secret-key": "hush", "s3.region": "r"}


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """A fake server while the block runs; its one bucket is ``b``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = self.path.partition("?")[0].removeprefix("/b/")
            server.requests.append((self.command, key))
            server.signatures.append(self.headers.get("Authorization", ""))
            given = server.answer(self.command, key, server.objects)
            if given is None:
                given = self._good(key, body)
            status, code = given if isinstance(given, tuple) else (given, "Wrong")
            found = server.objects.get(key, b"") if status in (200, 206) and self.command in ("GET", "HEAD") else b""
            if self.command == "POST":
                found = b"<DeleteResult/>"
            text = found if status < 300 else f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Sat, 21 Nov 2026 14:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def _good(self, key: str, body: bytes) -> int:
            if self.command == "PUT":
                if self.headers.get("If-None-Match") == "*" and key in server.objects:
                    return 412
                server.objects[key] = body
                return 200
            if self.command == "POST":  # a bulk delete
                for name in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                    server.objects.pop(name, None)
                return 200
            return 200 if key in server.objects else 404

        do_GET = do_PUT = do_HEAD = do_POST = _handle  # noqa: N815 - names of the base

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = FakeS3(f"http://127.0.0.1:{listener.server_address[1]}")
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()

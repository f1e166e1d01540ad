"""Requests to the server of a REST catalog, and the interpretation of its responses."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from lakelog.errors import (
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.clock import pause
from lakelog.io.remote.web import check_url, exchange
from lakelog.io.secrets import secret_value
from lakelog.options.catalog import CATALOG_TOKEN, CATALOG_URI
from lakelog.options.secrets import is_reference

_TRIES: Final = 4
"""Maximum attempts of a read-only request."""
_PAUSE_S: Final = 0.2
_PASSING: Final = (429, 502, 503, 504)
_MOST_BYTES: Final = 64 << 20
"""Maximum size of a response in bytes; one page of names or one schema is far smaller."""
_SHOWN: Final = 300
_HEADER: Final = "header."
_OWN_HEADERS: Final = (
    "accept", "authorization", "connection", "content-length", "content-type", "host", "transfer-encoding",
)  # fmt: skip
_PREFIX: Final = re.compile(r"[^./\x00-\x20\x7f][^/\x00-\x20\x7f]*")
_WORD: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TEXT: Final = re.compile(r"[\x20-\x7e]*")
_TOKEN: Final = re.compile(r"[\x21-\x7e]*")
_ANSWERED: Final = (400, 404, 409)
"""Status codes that the caller turns into errors, because it knows the request."""


@dataclass(frozen=True)
class Answer:
    """A server's response: a status below 300 or one of 400, 404, 409, and its JSON object."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_done(self) -> bool:
        """True if the server executed the request."""
        return self.status < 300

    @property
    def message(self) -> str:
        """The server's error message, shortened."""
        return _printable(str(self.body.get("message") or f"status {self.status}"))


@dataclass(frozen=True)
class RestApi:
    """One warehouse of one server. Picklable; ``token``, which may be a reference, and ``headers`` are never
    printed.

    The client verifies certificates (``SSL_CERT_FILE`` adds further ones) and follows no redirects, so that only the
    configured server receives the token. The client retries GET. It sends requests that change something once.
    """

    url: str
    token: str = field(default="", repr=False)
    prefix: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @staticmethod
    def of(url: str, token: str) -> RestApi:
        """The server at an address, without the path prefix, which ``of_warehouse`` requests.

        Raises InvalidOption. The error omits the values, because either may be a secret.
        """
        check_url(CATALOG_URI.key, url, f"give the server's token as '{CATALOG_TOKEN.key}'")
        if not is_reference(token):
            _check_token(token)
        return RestApi(url.rstrip("/"), token)

    def of_warehouse(self, name: str) -> RestApi:
        """The server with its configuration for a warehouse: a path prefix and headers to send.

        Raises as ``get``, NotFound for an unknown warehouse, Corrupt.
        """
        answer = self.get("config", warehouse=name)
        if not answer.is_done:
            raise NotFound(f"the catalog server at {self.url} has no warehouse '{name}': {answer.message}")
        settings = {**_texts(answer.body.get("defaults")), **_texts(answer.body.get("overrides"))}
        prefix = settings.get("prefix", "")
        headers = {k.removeprefix(_HEADER): v for k, v in settings.items() if k.startswith(_HEADER)}
        if not all(_PREFIX.fullmatch(part) for part in prefix.split("/") if part) or not all(
            _WORD.fullmatch(k) and _TEXT.fullmatch(v) and k.lower() not in _OWN_HEADERS for k, v in headers.items()
        ):
            raise Corrupt(f"the catalog server at {self.url} sent an invalid prefix or header")
        return replace(self, prefix=prefix, headers=tuple(sorted(headers.items())))

    def get(self, *path: str, **query: str) -> Answer:
        """Requests a path (unquoted names). Raises Unavailable, InvalidOption (401), InvalidRequest."""
        for left in reversed(range(_TRIES)):
            try:
                status, data = self._send("GET", path, None, query)
                if status not in _PASSING:
                    return self._answer(status, data)
                why = f"it answers {status}"
            except HTTPError as failed:
                why = _error_text(failed)
            if left:
                pause(_TRIES - left, _PAUSE_S, longest_s=10.0)
        raise self._unreachable(why)

    def change(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Sends a change to the server (``POST``, ``DELETE``), once.

        Raises Unavailable if the server certainly did not receive it, CommitUnknown if the outcome is unknown,
        InvalidOption (401), InvalidRequest (403), UnsupportedFeature (501).
        """
        try:
            status, data = self._send(method, path, body, {})
        except HTTPError as failed:
            if _was_not_sent(failed):
                raise self._unreachable(_error_text(failed)) from None
            raise self._unknown(method, path, _error_text(failed)) from None
        if status >= 500 and status != 501:
            raise self._unknown(method, path, f"it answers {status}: {self._read(data, status).message}")
        return self._answer(status, data)

    def names(self, field_name: str, *path: str) -> list[str] | None:
        """The names of a paginated list; None if the containing resource does not exist. Raises as ``get``."""
        names: list[str] = []
        seen: set[str] = set()
        query: dict[str, str] = {}
        while True:
            answer = self.get(*path, **query)
            if answer.status == 404:
                return None
            if not answer.is_done:
                raise InvalidRequest(f"the catalog server at {self.url} refuses the request: {answer.message}")
            names += [str(name) for name in answer.body.get(field_name) or ()]
            token = answer.body.get("nextPageToken")
            if not token:
                return names
            if token in seen:
                raise Corrupt(f"the catalog server at {self.url} sent the same page repeatedly")
            seen.add(token)
            query = {"pageToken": str(token)}

    def _send(
        self, method: str, path: tuple[str, ...], body: Mapping[str, Any] | None, query: Mapping[str, str]
    ) -> tuple[int, bytes]:
        parts = ("v1", *(part for part in self.prefix.split("/") if part), *path)
        address = f"{self.url}/{'/'.join(quote(part, safe='') for part in parts)}"
        headers = {**dict(self.headers), "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            token = secret_value(CATALOG_TOKEN.key, self.token)
            _check_token(token)
            headers["Authorization"] = f"Bearer {token}"
        url = f"{address}?{urlencode(query)}" if query else address
        return exchange(method, url, headers, None if body is None else orjson.dumps(body), _MOST_BYTES)

    def _answer(self, status: int, data: bytes) -> Answer:
        answer = self._read(data, status)
        if answer.is_done or status in _ANSWERED:
            return answer
        said = answer.message
        if status == 401:
            raise InvalidOption(
                f"the catalog server at {self.url} rejected the credentials (401): correct '{CATALOG_TOKEN.key}'"
            )
        if status == 403:
            raise InvalidRequest(
                f"the catalog server at {self.url} denied the request (403): {said}. "
                "Ask its administrator for the privilege"
            )
        if status == 501:
            raise UnsupportedFeature(f"the catalog server at {self.url} does not support the request (501): {said}")
        if status >= 500 or status == 429:
            raise self._unreachable(f"it answers {status}: {said}")
        raise InvalidRequest(f"the catalog server at {self.url} refuses the request ({status}): {said}")

    def _read(self, data: bytes, status: int) -> Answer:
        try:
            body = orjson.loads(data) if data.strip() else {}
        except orjson.JSONDecodeError:
            body = None
        if isinstance(body, dict):
            said = {"message": self._without_token(str(body.get("message") or ""))}
            return Answer(status, body if status < 300 else {**body, **said})
        if status < 300:
            raise Corrupt(
                f"the server at {self.url} did not send a JSON object: is '{CATALOG_URI.key}' the address of a REST "
                "catalog?"
            )
        return Answer(status, {"message": self._without_token(data[:_SHOWN].decode("utf-8", "replace"))})

    def _without_token(self, text: str) -> str:
        return _printable(text.replace(self.token, "…") if self.token else text)

    def _unreachable(self, why: str) -> Unavailable:
        return Unavailable(f"the catalog server at {self.url} cannot be reached or does not answer: {why}")

    def _unknown(self, method: str, path: tuple[str, ...], why: str) -> CommitUnknown:
        return CommitUnknown(
            f"outcome unknown: no valid response from the catalog server at {self.url} to {method} {'/'.join(path)}: "
            f"{why}; check before you try again"
        )


def _check_token(token: str) -> None:
    if not _TOKEN.fullmatch(token):
        raise InvalidOption(
            f"option '{CATALOG_TOKEN.key}' contains blanks or characters that are not allowed in a token"
        )


def _texts(values: Any) -> dict[str, str]:
    return {str(k): v for k, v in values.items() if isinstance(v, str)} if isinstance(values, dict) else {}


def _was_not_sent(failed: HTTPError) -> bool:
    is_stranger = isinstance(failed, SSLError) and any(isinstance(a, ssl.SSLCertVerificationError) for a in failed.args)
    return is_stranger or isinstance(failed, NewConnectionError | ConnectTimeoutError)


def _error_text(failed: HTTPError) -> str:
    """The error text; it may contain the address, but never headers."""
    return _printable(f"{type(failed).__name__}: {failed}")


def _printable(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text)[:_SHOWN]

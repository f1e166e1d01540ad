"""A schema registry with Confluent's interface: schemas by the ids in messages, and the registration of schemas.

Source: Confluent's documentation, "Schema Registry API Reference"; Apicurio, Karapace and Redpanda have the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import orjson
import urllib3
from cachetools import LRUCache, TTLCache
from urllib3.exceptions import HTTPError

from lakelog.errors import Corrupt, InvalidOption, InvalidSchema, Unavailable
from lakelog.fileformat.messages.schemas import resolved
from lakelog.io.clock import monotonic_s, pause
from lakelog.io.remote.web import check_url, exchange
from lakelog.io.secrets import secret_value
from lakelog.logstore.credentials import check_given, servers_in
from lakelog.options.option import Options
from lakelog.options.schema_registry import REGISTRY_PASSWORD, REGISTRY_URL, REGISTRY_USER
from lakelog.options.secrets import is_reference

_TRIES: Final = 5
_PAUSE_S: Final = 0.2
_LONGEST_S: Final = 5.0
_PASSING: Final = (408, 429, 500, 502, 503, 504)
_MOST_BYTES: Final = 4 << 20
_MOST_REFERENCES: Final = 100
_SHOWN: Final = 300
_KIND: Final = "application/vnd.schemaregistry.v1+json"

_LOCK: Final = threading.Lock()
_SCHEMAS: Final[LRUCache[tuple[SchemaRegistry, int], Any]] = LRUCache(1024)
"""What an id means never changes."""
_UNKNOWN: Final[TTLCache[tuple[SchemaRegistry, int], str]] = TTLCache(1024, ttl=10.0, timer=monotonic_s)
_IDS: Final[LRUCache[tuple[SchemaRegistry, str, str], int]] = LRUCache(1024)


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry and the credentials for it. Picklable; ``password`` may be a reference, which each request reads."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def of(options: Options) -> SchemaRegistry:
        """The registry that the options of a table name. Raises InvalidOption."""
        url = options.need(REGISTRY_URL)
        check_url(REGISTRY_URL.key, url, f"give them as '{REGISTRY_USER.key}' and '{REGISTRY_PASSWORD.key}'")
        return SchemaRegistry(url.rstrip("/"), options.need(REGISTRY_USER), options.need(REGISTRY_PASSWORD))

    def schema(self, number: int) -> Any:
        """The schema with an id, resolved (``fileformat/messages/schemas``).

        Raises Corrupt for an id that the registry does not know, or whose schema is not Avro; Unavailable.
        """
        with _LOCK:
            schema, why = _SCHEMAS.get((self, number)), _UNKNOWN.get((self, number))
        if why is not None:
            raise Corrupt(why)
        if schema is None:
            try:
                schema = self._read(number)
            except Corrupt as wrong:
                with _LOCK:
                    _UNKNOWN[self, number] = str(wrong)
                raise
            with _LOCK:
                _SCHEMAS[self, number] = schema
        return schema

    def register(self, subject: str, schema: Any) -> int:
        """The id of a schema under a subject, which has it afterwards.

        Raises InvalidSchema if the registry refuses it as incompatible with older ones or as invalid, Unavailable.
        """
        text = json.dumps(schema)
        with _LOCK:
            number = _IDS.get((self, subject, text))
        if number is None:
            path = f"/subjects/{quote(subject, safe='')}/versions"
            status, body = self._ask("POST", path, {"schema": text})
            if status in (409, 422):
                raise InvalidSchema(
                    f"the schema registry at {self.url} refuses the columns of the table as a new version of subject "
                    f"'{subject}' ({status}): {_message(body)}. Change the subject's compatibility, or the columns"
                )
            number = body.get("id")
            if status >= 300 or not isinstance(number, int):
                raise self._unavailable(f"it answers {status} to POST {path}: {_message(body)}")
            with _LOCK:
                _IDS[self, subject, text] = number
        return number

    def _read(self, number: int) -> Any:
        status, body = self._ask("GET", f"/schemas/ids/{number}")
        if status == 404:
            raise Corrupt(f"the schema registry at {self.url} has no schema with id {number}: {_message(body)}")
        if status >= 300:
            raise self._unavailable(f"it answers {status} to the schema with id {number}: {_message(body)}")
        name = f"the schema with id {number} of the registry at {self.url}"
        others: dict[tuple[str, Any], Any] = {}
        schema = self._parsed(name, body, others, ())
        try:
            return resolved(schema, others.values())
        except Corrupt as why:
            raise Corrupt(f"{name} is invalid: {why}") from None

    def _parsed(
        self, name: str, body: Mapping[str, Any], others: dict[tuple[str, Any], Any], above: tuple[Any, ...]
    ) -> Any:
        """A schema; those that it refers to come into ``others`` before it."""
        kind = body.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise Corrupt(f"{name} is of type {kind}, and the log has 'log-store.data-format' = 'avro'")
        for part in body.get("references") or ():
            target = (str(part.get("subject")), part.get("version"))
            if target in others:
                continue
            if target in above or len(others) + len(above) >= _MOST_REFERENCES:
                raise Corrupt(f"{name} refers to itself, or to more than {_MOST_REFERENCES} schemas")
            subject, version = target
            status, entry = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{int(version)}")
            if status == 404:
                raise Corrupt(f"{name} refers to version {version} of subject '{subject}', which does not exist")
            if status >= 300:
                raise self._unavailable(f"it answers {status} to version {version} of subject '{subject}'")
            schema = self._parsed(f"version {version} of subject '{subject}'", entry, others, (*above, target))
            others[target] = schema
        try:
            return orjson.loads(body.get("schema") or "")
        except orjson.JSONDecodeError as why:
            raise Corrupt(f"{name} is not JSON: {why}") from None

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Mapping[str, Any]]:
        """The status and the JSON object of a response. Both kinds of requests may be repeated.

        Raises Unavailable, InvalidOption (401, 403).
        """
        data = None if body is None else orjson.dumps(body)
        for number in range(_TRIES):
            try:
                status, answer = exchange(method, self.url + path, self._headers(), data, _MOST_BYTES)
                if status in (401, 403):
                    raise InvalidOption(
                        f"the schema registry at {self.url} denies the request ({status}): correct "
                        f"'{REGISTRY_USER.key}' and '{REGISTRY_PASSWORD.key}'"
                    )
                if status not in _PASSING:
                    return status, self._object(status, answer)
                why = f"it answers {status}"
            except HTTPError as failed:
                why = f"{type(failed).__name__}: {failed}"[:_SHOWN]
            if number + 1 < _TRIES:
                pause(number, _PAUSE_S, _LONGEST_S)
        raise self._unavailable(why)

    def _object(self, status: int, data: bytes) -> Mapping[str, Any]:
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            body = None
        if isinstance(body, dict):
            return body
        if status < 300:
            raise self._unavailable("it does not send a JSON object: is this the address of a schema registry?")
        return {}

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_KIND}, application/json", "Content-Type": _KIND}
        if self.user or self.password:
            if is_reference(self.password):
                check_given(REGISTRY_PASSWORD.key, self.password, set(servers_in(self.url)))
            password = secret_value(REGISTRY_PASSWORD.key, self.password)
            headers |= urllib3.make_headers(basic_auth=f"{self.user}:{password}")
        return headers

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(f"the schema registry at {self.url} cannot be reached or does not answer: {why}")


def _message(body: Mapping[str, Any]) -> str:
    return str(body.get("message") or "no reason")[:_SHOWN]

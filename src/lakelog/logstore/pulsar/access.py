"""Access to a Pulsar cluster: addresses and credentials, from the ``properties.*`` of a table.

The properties have the names of Pulsar's own connectors. Secrets are never printed, and an error names the key only.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pulsar
import urllib3

from lakelog.errors import AlreadyExists, InvalidOption, LakelogError, NotFound, Unavailable, did_you_mean
from lakelog.io.machine import PerProcess
from lakelog.logstore.base import LogLocation
from lakelog.logstore.credentials import credentials_of
from lakelog.logstore.pulsar import PULSAR
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import LOG_ADDRESS

TIMEOUT_S: Final = 10.0
"""Seconds without a response after which the cluster counts as unavailable."""

ADMIN_URL: Final = "pulsar.admin.adminUrl"
_PLUGIN: Final = "pulsar.client.authPluginClassName"
AUTH_PARAMS: Final = "pulsar.client.authParams"
_TRUST: Final = "pulsar.client.tlsTrustCertsFilePath"
_INSECURE: Final = "pulsar.client.tlsAllowInsecureConnection"
_HOSTNAME: Final = "pulsar.client.tlsHostnameVerificationEnable"
_CERTIFICATE: Final = "pulsar.client.tlsCertificateFilePath"
_KEY: Final = "pulsar.client.tlsKeyFilePath"
_PACKS: Final = "pulsar.producer.packs"
_PLUGINS: Final = {"AuthenticationToken": "token", "AuthenticationBasic": "basic", "AuthenticationTls": "tls"}
_ADMIN_PORTS: Final = {"pulsar": ("http", 8080), "pulsar+ssl": ("https", 8443)}

_REFUSED: Final = (pulsar.AuthenticationError, pulsar.AuthorizationError, pulsar.ErrorGettingAuthenticationData)
_NOT_FOUND: Final = (pulsar.TopicNotFound,)


@dataclass(frozen=True)
class Access:
    """The addresses and credentials of a cluster, from a location. Raises InvalidOption."""

    location: LogLocation

    def __post_init__(self) -> None:
        for key in self.location.properties:
            if key not in PULSAR.properties:
                hint = did_you_mean(key, PULSAR.properties, ".", prefix=PROPERTIES_PREFIX)
                raise InvalidOption(
                    f"option '{PROPERTIES_PREFIX}{key}' is unknown for a log on Pulsar{hint} Known: "
                    f"{', '.join(PROPERTIES_PREFIX + name for name in PULSAR.properties)}"
                )
        if self._scheme not in _ADMIN_PORTS:
            raise InvalidOption(
                f"option '{LOG_ADDRESS.key}' = '{self.location.address}' is not the service URL of a Pulsar cluster: "
                f"write 'pulsar://host:6650', or 'pulsar+ssl://host:6651' with TLS"
            )
        for key in (_INSECURE, _HOSTNAME, _PACKS):
            if self._get(key, "false") not in ("true", "false"):
                raise InvalidOption(
                    f"option '{PROPERTIES_PREFIX}{key}' must be 'true' or 'false', not '{self._get(key)}'"
                )
        _ = self._method, self._credentials

    @property
    def has_packs(self) -> bool:
        """True if a message holds many records, False if each record is a message for any client."""
        return self._get(_PACKS, "true") == "true"

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """The URLs of the admin interface: the configured ones, or the default port of each broker."""
        urls = self._get(ADMIN_URL)
        if urls:
            return tuple(part.rstrip("/") for part in urls.split(","))
        scheme, port = _ADMIN_PORTS[self._scheme]
        hosts = self.location.address.partition("://")[2].rstrip("/").split(",")
        return tuple(f"{scheme}://{urlsplit('//' + host).hostname}:{port}" for host in hosts)

    def headers(self) -> dict[str, str]:
        """The HTTP headers of each admin request."""
        if self._method == "token":
            return {"Authorization": f"Bearer {self._credentials}"}
        if self._method == "basic":
            return dict(urllib3.make_headers(basic_auth=self._credentials))
        return {}

    def pool(self) -> urllib3.PoolManager:
        """An HTTP client for the admin interface."""
        insecure = self._get(_INSECURE) == "true"
        return urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=TIMEOUT_S / 2, read=TIMEOUT_S),
            # a broker redirects to the broker that serves the topic, with the caller's credentials
            retries=urllib3.Retry(0, redirect=5, remove_headers_on_redirect=()),
            ca_certs=self._get(_TRUST),
            cert_file=self._get(_CERTIFICATE),
            key_file=self._get(_KEY),
            cert_reqs="CERT_NONE" if insecure else "CERT_REQUIRED",
            assert_hostname=None if self._get(_HOSTNAME, "true") == "true" and not insecure else False,
        )

    def client(self) -> pulsar.Client:
        """A client of the cluster, which connects on first use."""
        authentication = None
        if self._method == "token":
            authentication = pulsar.AuthenticationToken(self._credentials)
        elif self._method == "basic":
            user, _, password = self._credentials.partition(":")
            authentication = pulsar.AuthenticationBasic(user, password)
        elif self._method == "tls":
            authentication = pulsar.AuthenticationTLS(self._need(_CERTIFICATE), self._need(_KEY))
        with translated_errors(self.location):
            return pulsar.Client(
                self.location.address,
                authentication=authentication,
                operation_timeout_seconds=int(TIMEOUT_S),
                connection_timeout_ms=int(TIMEOUT_S * 500),
                tls_trust_certs_file_path=self._get(_TRUST),
                tls_allow_insecure_connection=self._get(_INSECURE) == "true",
                tls_validate_hostname=self._get(_HOSTNAME, "true") == "true",
                stats_interval_in_seconds=0,
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),  # errors are raised
            )

    @property
    def _scheme(self) -> str:
        return self.location.address.partition("://")[0]

    @property
    def _method(self) -> str | None:
        """The authentication method: token, basic, tls or None."""
        name = self._get(_PLUGIN)
        if name is None:
            return "token" if self._get(AUTH_PARAMS) else None
        method = _PLUGINS.get(name.rpartition(".")[2], name)
        if method not in _PLUGINS.values():
            raise InvalidOption(
                f"option '{PROPERTIES_PREFIX}{_PLUGIN}' = '{name}' is not supported: use one of {', '.join(_PLUGINS)}"
            )
        return method

    @property
    def _credentials(self) -> str:
        """The token, or ``user:password``; never part of an error."""
        if self._method == "token":
            text = self._need(AUTH_PARAMS)
            if text.startswith("file:"):
                path = text.removeprefix("file://").removeprefix("file:")
                try:
                    return Path(path).read_text(encoding="utf-8").strip()
                except OSError as failed:
                    raise InvalidOption(
                        f"the file that option '{PROPERTIES_PREFIX}{AUTH_PARAMS}' names cannot be read: "
                        f"{failed.strerror}"
                    ) from None
            return text.removeprefix("token:")
        if self._method == "basic":
            try:
                parameters = json.loads(self._need(AUTH_PARAMS))
                return f"{parameters['userId']}:{parameters['password']}"
            except (ValueError, KeyError, TypeError):
                raise InvalidOption(
                    f"option '{PROPERTIES_PREFIX}{AUTH_PARAMS}' of AuthenticationBasic is a JSON object with userId "
                    f"and password"
                ) from None
        return ""

    def _get(self, key: str, default: str | None = None) -> str | None:
        return self.location.properties.get(key, default)

    def _need(self, key: str) -> str:
        value = credentials_of(self.location).get(key)
        if not value:
            raise InvalidOption(f"option '{PROPERTIES_PREFIX}{key}' is missing: this authentication plugin needs it")
        return value


def unavailable(location: LogLocation, why: object) -> Unavailable:
    """The error for a cluster that does not respond."""
    return Unavailable(
        f"Pulsar at {location.address} cannot be reached or does not answer ({why}): "
        f"check that the cluster runs, 'log-store.address', and that the brokers' advertised addresses can be reached "
        f"from here"
    )


@contextlib.contextmanager
def translated_errors(location: LogLocation) -> Iterator[None]:
    """Translates the client's errors into lakelog's."""
    try:
        yield
    except pulsar.PulsarException as failed:
        raise error_of(location, failed) from failed


def error_of(location: LogLocation, failed: pulsar.PulsarException) -> LakelogError:
    """An error of the client as one of lakelog."""
    if isinstance(failed, _REFUSED):
        return InvalidOption(f"Pulsar at {location.address} refuses the credentials in 'properties.*' ({failed})")
    if isinstance(failed, _NOT_FOUND):
        return NotFound(f"topic '{location.topic}' does not exist on {location.address}: it was deleted")
    if isinstance(failed, pulsar.InvalidTopicName | pulsar.InvalidUrl | pulsar.InvalidConfiguration):
        return InvalidOption(f"Pulsar's client refuses the topic, the address or an option: {failed}")
    return unavailable(location, failed)


class Admin:
    """The admin interface (REST) of a cluster, for one location."""

    def __init__(self, access: Access) -> None:
        self._access, self._location = access, access.location
        self._urls, self._headers, self._pool = access.admin_urls, access.headers(), access.pool()

    def get(self, path: str) -> Any:
        """The content of a path; None if the path does not exist. Raises as ``change``."""
        return self._call("GET", path, None)

    def change(self, method: str, path: str, body: object = None, kind: str = "application/json") -> None:
        """Sends a change to a path. Raises NotFound, AlreadyExists, InvalidOption (rejected), Unavailable."""
        self._call(method, path, body, kind)

    def _call(self, method: str, path: str, body: object, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        failure: Exception | None = None
        for url in self._urls:
            try:
                answer = self._pool.request(
                    method, f"{url}/admin/v2/{path}", body=data, headers={**self._headers, "Content-Type": kind}
                )
            except urllib3.exceptions.HTTPError as failed:
                failure = failed
                continue
            return self._answered(method, url, answer)
        why = type(failure).__name__ if failure is not None else "no address"
        raise unavailable(self._location, f"its admin interface at {', '.join(self._urls)}: {why}")

    def _answered(self, method: str, url: str, answer: urllib3.BaseHTTPResponse) -> Any:
        status = answer.status
        if status < 300:
            return json.loads(answer.data) if answer.data else None
        reason = _reason(answer.data)
        if status == 404:
            if method == "GET":
                return None
            raise NotFound(f"topic '{self._location.topic}' does not exist on {self._location.address}: {reason}")
        if status in (401, 403):
            raise InvalidOption(
                f"Pulsar's admin interface at {url} refuses the credentials in 'properties.*' ({status}): {reason}"
            )
        if status == 409:
            raise AlreadyExists(f"topic '{self._location.topic}' on {self._location.address}: {reason}")
        if status in (405, 412):
            raise InvalidOption(f"Pulsar at {url} denied the request ({status}): {reason}")
        raise unavailable(self._location, f"its admin interface at {url} answers {status}: {reason}")


def _reason(data: bytes) -> str:
    try:
        answer: Mapping[str, Any] = json.loads(data)
        return str(answer.get("reason", ""))[:300]
    except (ValueError, AttributeError):
        return data.decode("utf-8", "replace")[:300]


_CLIENTS: Final[PerProcess[tuple[str, tuple[tuple[str, str], ...]], pulsar.Client]] = PerProcess()


def client_for(access: Access) -> pulsar.Client:
    """The client of a cluster that all readers and appenders of this process share."""
    location = access.location
    return _CLIENTS.get((location.address, tuple(sorted(credentials_of(location).items()))), access.client)


@atexit.register
def _shut_down() -> None:
    """Ends the threads of this process's clients, because one that outlives its library aborts the process."""
    for client in _CLIENTS.all():
        with contextlib.suppress(pulsar.PulsarException):
            client.shutdown()

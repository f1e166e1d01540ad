"""Secrets that the client of a log needs, in place of the references among the properties of a table.

A user who may write the files of a warehouse may write any reference into a schema, and any server beside it. So the
process that opens a client says itself, in its environment, which secret it gives to which server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.io.secrets import secret_value
from lakelog.logstore.base import LogLocation
from lakelog.logstore.factory import SERVER, VALUE, VALUE_OR_FILE
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.environment import SECRETS_OF_TABLES
from lakelog.options.parts import LOG_SYSTEMS
from lakelog.options.secrets import REFERENCE, is_reference, looks_secret

_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+]*://")


def credentials_of(location: LogLocation) -> Mapping[str, str]:
    """The properties for the client of a log, with secrets in place of references; never stored, sent on or printed.

    Raises InvalidOption if this process does not give the secret to the servers of the log, does not have it, or if a
    reference is where the client needs a file or a server.
    """
    if not any(map(is_reference, location.properties.values())):
        return location.properties
    kinds = LOG_SYSTEMS.load(location.system).properties
    addresses = [location.address, *(v for k, v in location.properties.items() if kinds.get(k) == SERVER)]
    servers = {server for address in addresses for server in servers_in(address)}
    out: dict[str, str] = {}
    for name, value in location.properties.items():
        key = PROPERTIES_PREFIX + name
        if is_reference(value):
            check_reference(name, value, kinds)
            check_given(key, value, servers)
        out[name] = secret_value(key, value)
    return out


def check_reference(name: str, reference: str, kinds: Mapping[str, str]) -> None:
    """Checks that a client property may be a reference. Raises InvalidOption.

    ``kinds`` are those of the client's properties. A file, a server, or a number that lakelog itself reads, may not.
    """
    is_value = kinds.get(name) in (VALUE, VALUE_OR_FILE)
    if not is_value or not (looks_secret(name) or name.endswith(("username", ".pem"))):
        raise InvalidOption(
            f"option '{PROPERTIES_PREFIX}{name}' = '{reference}' cannot be a reference to a secret: give the "
            "value itself"
        )


def servers_in(text: str) -> Iterator[str]:
    """The servers of an address, each as ``host:port`` in small letters and without its scheme."""
    for part in text.lower().split(","):
        if server := _SCHEME.sub("", part.strip(), count=1).rstrip("/"):
            yield server


def check_given(key: str, reference: str, servers: set[str]) -> None:
    """Checks that the environment gives a secret to all these servers, by their whole texts. Raises InvalidOption."""
    name = reference.removeprefix(REFERENCE)
    allowed: set[str] = set()
    for entry in os.environ.get(SECRETS_OF_TABLES, "").split():
        secret, at, named = entry.rpartition("@")
        if at and secret == name:
            allowed.update(servers_in(named))
    if refused := sorted(servers - allowed):
        raise InvalidOption(
            f"option '{key}' = '{reference}' of the table sends a secret of this process to '{refused[0]}', which the "
            f"environment variable {SECRETS_OF_TABLES} does not allow. If that server may have it, add "
            f"'{name}@{','.join(sorted(servers))}' to the variable, on Spark also for the executors"
        )

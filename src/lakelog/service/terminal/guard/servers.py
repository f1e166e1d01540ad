"""Servers that a user's statement may make the dashboard's machine connect to.

Without a list, a user who may create tables could reach, through the log of a table, what only that machine can reach
(server-side request forgery, CWE-918).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lakelog.errors import NotAllowed
from lakelog.logstore import client_properties
from lakelog.logstore.credentials import servers_in
from lakelog.logstore.factory import SERVER
from lakelog.options.catalog import CATALOG_LOG_SERVERS, CATALOG_OPTIONS
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import LOG_ADDRESS
from lakelog.options.option import Options
from lakelog.options.secrets import without_password
from lakelog.table.model.log_options import ALL_OPTIONS


def servers_of(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, server) of every server that the options of a table name, in every spelling, as ``host:port``."""
    properties = {f"{PROPERTIES_PREFIX}{name}" for name, sort in client_properties().items() if sort == SERVER}
    for spelling, value in options.items():
        if (key := ALL_OPTIONS.canonical_key(spelling)) == LOG_ADDRESS.key or key in properties:
            yield from ((key, server) for server in servers_in(value))


def check_servers(options: Mapping[str, str], catalog: Mapping[str, str], known: Iterable[str]) -> None:
    """Checks that options of a table name only servers that their catalog allows or knows.

    ``catalog`` has the options of the catalog. ``known`` are the servers of its tables; they are read only if needed.
    Raises NotAllowed for any other server: what is compared is the whole text, so that no two parsers can differ.
    """
    named = Options(CATALOG_OPTIONS.canonical(catalog)).get_typed(CATALOG_LOG_SERVERS) or ""
    refused = [(key, server) for key, server in servers_of(options) if server not in set(servers_in(named))]
    if not refused:
        return
    servers = set(known)
    for key, server in refused:
        if server not in servers:
            raise NotAllowed(
                f"option '{key}' names the server '{without_password(server)}', which no table of this catalog has and "
                f"its option '{CATALOG_LOG_SERVERS.key}' does not list: use a server of another table, or ask an "
                f"administrator to add this one to '{CATALOG_LOG_SERVERS.key}'"
            )

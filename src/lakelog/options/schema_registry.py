"""The schema registry of a log with Avro values, as options of the table."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option

REGISTRY_URL: Final = Option(
    "log-store.schema-registry.url",
    str,
    None,
    "Address of the schema registry, with Confluent's interface, of a log whose log-store.data-format is avro, like "
    "'https://registry:8081'.",
)
REGISTRY_USER: Final = Option(
    "log-store.schema-registry.username",
    str,
    "",
    "User name, or API key, for the schema registry. Default: requests without credentials.",
)
REGISTRY_PASSWORD: Final = Option(
    "log-store.schema-registry.password",
    str,
    "",
    "Password, or API secret, for the schema registry, as a reference such as secret:env:NAME. LAKELOG_SECRETS has to "
    "allow it for the registry's host:port.",
    secret=True,
)

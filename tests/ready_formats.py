"""Log formats with all that they need: a schema registry in this process."""

from __future__ import annotations

import functools

from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.options.adopted import KEY_FORMAT
from lakelog.options.option import Options
from lakelog.options.schema_registry import REGISTRY_URL
from servers.schema_registry import SchemaRegistry

TOPIC = "topic"


@functools.cache
def schema_registry() -> SchemaRegistry:
    """The registry of this process."""
    return SchemaRegistry()


def ready_format(name: str) -> LogFormat:
    """A format as a table has it."""
    return log_format(name).of_table(Options({REGISTRY_URL.key: schema_registry().url, KEY_FORMAT.key: "json"}), TOPIC)

"""A table's options and the location of its log: what the user gives, what is kept in the schema."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidOption
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore.base import LogLocation
from lakelog.options.client import CLIENT_FILES, CLIENT_PROPERTIES
from lakelog.options.log import LOG_ADDRESS, LOG_OPTIONS, LOG_RETENTION, LOG_TOPIC, LOG_TYPE, PROPERTIES_PREFIX
from lakelog.options.lookup import LOOKUP_OPTIONS
from lakelog.options.option import Declared, Options
from lakelog.options.scan import SCAN_OPTIONS
from lakelog.options.storage import STORAGE_OPTIONS
from lakelog.options.table import TABLE_OPTIONS
from lakelog.paimon.schema.schema import TableSchema

EMBEDDED = "embedded"
_LOG_ID = "lakelog.log-id"
_LOG_MACHINE = "lakelog.log-machine"

ALL_OPTIONS = Declared(
    [
        *TABLE_OPTIONS.options,
        *SCAN_OPTIONS.options,
        *LOG_OPTIONS.options,
        *LOOKUP_OPTIONS.options,
        *STORAGE_OPTIONS.options,
    ],
    [*TABLE_OPTIONS.free_prefixes, *LOG_OPTIONS.free_prefixes, "lakelog."],
)
"""Every option of a table, and those of the storage, which are refused by name without showing a secret value;
unknown keys are refused with the nearest known one."""


_KAFKA_ADDRESS = "the bootstrap servers, like 'localhost:9092'"


def canonical_options(given: Mapping[str, str], scope: str) -> dict[str, str]:
    """Canonical keys of the options given; raises InvalidOption (``scope``: table, read or write)."""
    return ALL_OPTIONS.canonical(given, scope)


def by_canonical_key(given: Mapping[str, str]) -> dict[str, str]:
    """Options under their canonical keys; the canonical spelling wins over another one. Nothing is checked."""
    spelled = sorted(given.items(), key=lambda item: ALL_OPTIONS.canonical_key(item[0]) == item[0])
    return {ALL_OPTIONS.canonical_key(key): value for key, value in spelled}


def planned_log(schema: TableSchema, path: str, identifier: Identifier) -> LogLocation:
    """The log that a new table asks for. Raises InvalidOption when the address of its servers is missing."""
    options = Options(schema.options)
    address = options.get_typed(LOG_ADDRESS)
    system = options.get_typed(LOG_TYPE) or _system_at(address)
    if address is not None and system != EMBEDDED and _is_path(address):
        raise InvalidOption(
            f"'{LOG_ADDRESS.key}' = '{address}' is the path of a file, which '{LOG_TYPE.key}' = '{system}' does not "
            f"take: write '{LOG_TYPE.key}' = 'embedded' with it, or give {_KAFKA_ADDRESS}"
        )
    if address is None and system != EMBEDDED:
        raise InvalidOption(
            f"'{LOG_ADDRESS.key}' is required for 'log-store.type'='{system}': give "
            + ("the service URL, like 'pulsar://localhost:6650'" if system == "pulsar" else _KAFKA_ADDRESS)
        )
    if address is None and "://" in path:
        raise InvalidOption(
            f"an embedded log cannot lie in '{path}', it needs a local disk: set '{LOG_ADDRESS.key}' to Kafka's "
            f"bootstrap servers, or to a local file with '{LOG_TYPE.key}'='embedded'"
        )
    topic = options.get_typed(LOG_TOPIC) or f"{identifier.database}_{identifier.table}_{new_uuid()}"
    return _location(options, system, address or _embedded_path(path), topic, max(1, schema.num_buckets))


def _system_at(address: str | None) -> str:
    if address is None:
        return EMBEDDED
    return "pulsar" if address.startswith(("pulsar://", "pulsar+ssl://")) else "kafka"


def _is_path(address: str) -> bool:
    return address.startswith(("/", "./", "../", "~", "file:")) or address.endswith((".sqlite", ".db"))


def check_log(log: LogLocation, io: FileIO) -> None:
    """Looks at what a table says of its log; ``io`` is the table's own storage.

    Raises Corrupt when an embedded log, or a file of the client, is outside of the table and of the external paths, and
    InvalidOption for an option of the client that a table may not have.
    """
    if log.system == EMBEDDED:
        for suffix in ("", "-wal", "-shm", "-journal"):
            io.absolute(log.address + suffix)
    for key, value in log.properties.items():
        if key in CLIENT_FILES:
            io.absolute(value)
        elif key not in CLIENT_PROPERTIES:
            raise InvalidOption(
                f"option '{PROPERTIES_PREFIX}{key}' cannot be an option of a table: it may load code, run a program or "
                f"send secrets elsewhere. Remove it: ALTER TABLE … UNSET TBLPROPERTIES"
            )


def kept_log_options(log: LogLocation, path: str) -> dict[str, str]:
    """The options by which the table finds its log again; the embedded log's place is derived from the table's."""
    kept = {LOG_TYPE.key: log.system, LOG_TOPIC.key: log.topic, _LOG_ID: log.log_id, _LOG_MACHINE: log.machine}
    if log.address != _embedded_path(path):
        kept[LOG_ADDRESS.key] = log.address
    return kept


def log_location(schema: TableSchema, path: str, name: str) -> LogLocation:
    """The log of an existing table."""
    options = Options(schema.options)
    system = options.need(LOG_TYPE)
    address = options.get_typed(LOG_ADDRESS) or _embedded_path(path)
    return _location(options, system, address, options.need(LOG_TOPIC), max(1, schema.num_buckets))


def _location(options: Options, system: str, address: str, topic: str, buckets: int) -> LogLocation:
    retention = options.get_typed(LOG_RETENTION)
    return LogLocation(
        system=system,
        address=address,
        topic=topic,
        buckets=buckets,
        retention_ms=None if retention is None else round(retention.total_seconds() * 1000),
        log_id=options.get(_LOG_ID, ""),
        machine=options.get(_LOG_MACHINE, ""),
        properties={
            k.removeprefix(PROPERTIES_PREFIX): v for k, v in options.items() if k.startswith(PROPERTIES_PREFIX)
        },
    )


def _embedded_path(table_path: str) -> str:
    return f"{table_path}/lakelog/log.sqlite"

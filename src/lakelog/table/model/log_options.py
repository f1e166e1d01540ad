"""A table's options and the location of its log: user input and stored options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lakelog.catalog.base import Identifier
from lakelog.errors import Corrupt, InvalidOption, UnsupportedFeature
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.logstore import client_properties, log_factory, log_system_at
from lakelog.logstore.base import LogLocation
from lakelog.logstore.credentials import check_reference
from lakelog.logstore.factory import FILE, VALUE_OR_FILE
from lakelog.options.compatibility import COMPATIBILITY_OPTIONS, KEY_PREFIXES, PROPERTIES_PREFIX, TABLE_STORAGE
from lakelog.options.log import LOG_ADDRESS, LOG_ENABLED, LOG_OPTIONS, LOG_RETENTION, LOG_TOPIC, LOG_TYPE, PLAIN_SECRETS
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.lookup import LOOKUP_OPTIONS
from lakelog.options.option import Declared, Options
from lakelog.options.scan import SCAN_OPTIONS
from lakelog.options.schema_registry import REGISTRY_PASSWORD
from lakelog.options.secrets import is_reference, looks_secret
from lakelog.options.storage import STORAGE_OPTIONS
from lakelog.options.table import BUCKET, TABLE_ID, TABLE_OPTIONS
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, POSTPONE_BUCKET, TableSchema

LOG_ID: Final = "lakelog.log-id"
"""The key in a schema's options of the id of the table's log."""
LOG_MACHINE: Final = "lakelog.log-machine"
"""The key of the machine that has a local log."""
LOG_GENERATION: Final = "lakelog.log-generation"
"""The key of how often the log of the table was added or removed since CREATE TABLE (RFC 27)."""
_LOG_SYSTEM: Final = "log.system"

ALL_OPTIONS = Declared(
    [
        *TABLE_OPTIONS.options,
        *SCAN_OPTIONS.options,
        *LOG_OPTIONS.options,
        *LOOKUP_OPTIONS.options,
        *STORAGE_OPTIONS.options,
        *COMPATIBILITY_OPTIONS.options,
    ],
    [*TABLE_OPTIONS.free_prefixes, *LOG_OPTIONS.free_prefixes, "lakelog."],
    KEY_PREFIXES,
)
"""Every option of a table, and those of the storage.

Storage options are refused by name without showing a secret value. Unknown keys are refused with the nearest known one.
"""


def canonical_options(options: Mapping[str, str], scope: str) -> dict[str, str]:
    """The options under their canonical keys; raises InvalidOption (``scope``: table, read or write).

    In a table, Table Store's ``log.system`` also turns the log on, or off with ``none``.
    """
    check_spelled_once(options.items())
    if scope != "table":
        return ALL_OPTIONS.canonical(options, scope)
    canonical = ALL_OPTIONS.canonical({k: v for k, v in options.items() if not _is_no_log(k, v)}, scope)
    if any(key.lower().removeprefix(TABLE_STORAGE) == _LOG_SYSTEM for key in options):
        canonical = {LOG_ENABLED.key: str(LOG_TYPE.key in canonical).lower(), **canonical}
    return canonical


def check_spelled_once(pairs: Iterable[tuple[str, str]]) -> None:
    """Checks that no option has two values under two names, of which a check may see the other one.

    Raises InvalidOption, without the values.
    """
    seen: dict[str, tuple[str, str]] = {}
    for key, value in pairs:
        own = ALL_OPTIONS.canonical_key(key)
        first, other = seen.setdefault(own, (key, value))
        if value != other:
            raise InvalidOption(f"options '{first}' and '{key}' are two names of '{own}' with two values: give one")


def _is_no_log(key: str, value: str) -> bool:
    """True for ``log.system`` = ``none`` of Flink Table Store."""
    return ALL_OPTIONS.canonical_key(key) == LOG_TYPE.key and value.strip().lower() == "none"


def by_canonical_key(options: Mapping[str, str]) -> dict[str, str]:
    """Options under their canonical keys, without checks; the canonical spelling takes precedence."""
    spelled = sorted(options.items(), key=lambda item: ALL_OPTIONS.canonical_key(item[0]) == item[0])
    return {ALL_OPTIONS.canonical_key(key): value for key, value in spelled}


def planned_log(schema: TableSchema, path: str, identifier: Identifier) -> LogLocation:
    """The log that a new table requests. Raises InvalidOption if the address of its servers is missing."""
    options = Options(schema.options)
    address = options.get_typed(LOG_ADDRESS)
    system = options.get_typed(LOG_TYPE) or log_system_at(address, path)
    factory = log_factory(system)
    if address is not None and not factory.is_local and _is_path(address):
        raise InvalidOption(
            f"'{LOG_ADDRESS.key}' = '{address}' is a file path, which '{LOG_TYPE.key}' = '{system}' does not "
            f"support: write '{LOG_TYPE.key}' = '{log_system_at(None)}', or give {factory.address}"
        )
    if address is None and not factory.is_local:
        raise InvalidOption(
            f"'{LOG_ADDRESS.key}' is required for '{LOG_TYPE.key}' = '{system}': give {factory.address}"
        )
    if address is None and "://" in path and not factory.any_storage:
        raise InvalidOption(
            f"a log of type '{system}' cannot be in '{path}' because it needs a local disk: set '{LOG_TYPE.key}' = "
            f"'{log_system_at(None, path)}', or '{LOG_ADDRESS.key}' to the servers of another log system"
        )
    topic = options.get_typed(LOG_TOPIC) or f"{identifier.database}_{identifier.table}_{new_uuid()}"
    return _location(options, system, address or factory.default_address(path), topic, log_partitions(schema))


def _is_path(address: str) -> bool:
    return address.startswith(("/", "./", "../", "~", "file:")) or address.endswith((".sqlite", ".db"))


def check_log(log: LogLocation, io: FileIO) -> None:
    """Checks the log options of a table; ``io`` is the table's own storage.

    Raises Corrupt if a log that is a file, or a file of the client, is outside of the table and of the external paths.
    Raises InvalidOption for a client option that a table may not have.
    """
    factory, known = log_factory(log.system), client_properties()
    if factory.is_local:
        for suffix in factory.file_suffixes:
            io.absolute(log.address + suffix)
    for key, value in log.properties.items():
        if is_reference(value):
            check_reference(key, value, known)
        elif known.get(key) == FILE:
            io.absolute(value)
        elif key not in known:
            raise InvalidOption(
                f"option '{PROPERTIES_PREFIX}{key}' cannot be an option of a table: it may load code, run a program or "
                f"send secrets elsewhere. Remove it: ALTER TABLE … UNSET TBLPROPERTIES"
            )


def log_partitions(schema: TableSchema) -> int:
    """The number of partitions of a table's log: ``log-store.partitions``, else the number of buckets, else 1."""
    return Options(schema.options).get_typed(LOG_PARTITIONS) or max(1, schema.num_buckets)


def check_log_partitions(schema: TableSchema) -> None:
    """Raises UnsupportedFeature for buckets, and InvalidOption for log partitions, that a table cannot have."""
    options, buckets = Options(schema.options), schema.num_buckets
    has_log, partitions = options.need(LOG_ENABLED), options.get_typed(LOG_PARTITIONS)
    if partitions is not None and not has_log:
        raise InvalidOption(f"option '{LOG_PARTITIONS.key}' = '{partitions}' needs '{LOG_ENABLED.key}' = 'true'")
    if has_log and buckets == POSTPONE_BUCKET:
        raise UnsupportedFeature(
            f"option '{BUCKET.key}' = '{buckets}' of a table with a log is not supported: give a number of buckets, or "
            f"{DYNAMIC_BUCKET} for dynamic ones"
        )
    if partitions not in (None, 1) and buckets < 1 and not schema.is_keyed:
        raise InvalidOption(
            f"option '{LOG_PARTITIONS.key}' = '{partitions}' needs rows with a bucket or a primary key: set "
            f"'{BUCKET.key}' to a number"
        )


def is_plain_secret(key: str, value: str) -> bool:
    """True if an option (canonical key) of a table puts a secret of the log's client into the schema."""
    if key == REGISTRY_PASSWORD.key:
        return bool(value) and not is_reference(value)
    if not key.startswith(PROPERTIES_PREFIX) or not looks_secret(key):
        return False
    kind = client_properties().get(key.removeprefix(PROPERTIES_PREFIX))
    return not is_reference(value) and kind != FILE and not (kind == VALUE_OR_FILE and value.startswith("file:"))


def check_no_plain_secrets(options: Mapping[str, str], set_now: Iterable[str]) -> None:
    """Checks the options (canonical keys) of a table for secrets in plain text among those that are ``set_now``.

    Raises InvalidOption, without the value. Older options may keep theirs.
    """
    if Options(options).need(PLAIN_SECRETS):
        return
    known = client_properties()
    for key in set_now:
        if (
            key.startswith(PROPERTIES_PREFIX)
            and key.removeprefix(PROPERTIES_PREFIX) not in known
            and Options(options).need(LOG_ENABLED)
        ):
            continue  # ``check_log`` refuses it
        if key in options and is_plain_secret(key, options[key]):
            raise InvalidOption(
                f"option '{key}' is a secret, which the schema of the table would keep in plain text: write a "
                f"reference such as 'secret:env:NAME' or 'secret:file:/path', or set '{PLAIN_SECRETS.key}' = 'true'"
            )


def stored_log_options(log: LogLocation, path: str) -> dict[str, str]:
    """The options that locate the table's log later; the default address is derived from the table's path."""
    kept = {LOG_TYPE.key: log.system, LOG_TOPIC.key: log.topic, LOG_ID: log.log_id, LOG_MACHINE: log.machine}
    if log.address != log_factory(log.system).default_address(path):
        kept[LOG_ADDRESS.key] = log.address
    return kept


def log_id_in(schema: TableSchema) -> str:
    """The stored id of a table's log; "" without a log, and in a table of an early version."""
    return schema.options.get(LOG_ID, "")


def log_generation(schema: TableSchema) -> int:
    """How often the log of a table was added or removed, 0 since CREATE TABLE. Raises Corrupt."""
    number = schema.options.get(LOG_GENERATION, "0")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise Corrupt(f"option '{LOG_GENERATION}' = '{number[:50]}' is not a whole number")
    return int(number)


def placing_options(schema: TableSchema) -> list[str]:
    """The options of a schema that say where its log is and what it contains; those that go with the log."""
    fixed = {LOG_ADDRESS.key, LOG_PARTITIONS.key, *(o.key for o in LOG_OPTIONS.options if o.immutable)}
    fixed |= {LOG_ID, LOG_MACHINE}
    return [key for key in schema.options if key in fixed or key.startswith(PROPERTIES_PREFIX)]


def log_location(schema: TableSchema, path: str, name: str) -> LogLocation:
    """The log of an existing table."""
    options = Options(schema.options)
    system = options.need(LOG_TYPE)
    address = options.get_typed(LOG_ADDRESS) or log_factory(system).default_address(path)
    return _location(options, system, address, options.need(LOG_TOPIC), log_partitions(schema))


def _location(options: Options, system: str, address: str, topic: str, buckets: int) -> LogLocation:
    retention = options.get_typed(LOG_RETENTION)
    return LogLocation(
        system=system,
        address=address,
        topic=topic,
        buckets=buckets,
        retention_ms=None if retention is None else round(retention.total_seconds() * 1000),
        log_id=options.get(LOG_ID, ""),
        machine=options.get(LOG_MACHINE, ""),
        owner=options.get(TABLE_ID, ""),
        properties={
            k.removeprefix(PROPERTIES_PREFIX): v for k, v in options.items() if k.startswith(PROPERTIES_PREFIX)
        },
    )

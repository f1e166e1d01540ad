"""The append-only log per bucket: append → offsets, read from an offset."""

from __future__ import annotations

from lakelog.logstore.base import LogSystem
from lakelog.logstore.factory import LogFactory
from lakelog.options import parts
from lakelog.options.registry import Registry

LOG_SYSTEMS: Registry[LogSystem] = parts.LOG_SYSTEMS
"""Value of ``log-store.type`` → the factory of the log system, which ``create`` calls."""


def log_factory(name: str) -> LogFactory:
    """The properties of a log system, without its client. Raises InvalidRequest for an unknown name."""
    factory: LogFactory = LOG_SYSTEMS.load(name)
    return factory


def log_system_at(address: str | None, table_path: str = "") -> str:
    """The log system for the scheme of an address; without an address, the one that needs none for such a table."""
    factories: dict[str, LogFactory] = LOG_SYSTEMS.importable()
    if address is None:
        is_remote = "://" in table_path
        local = [name for name, f in factories.items() if f.is_local and (f.any_storage or not is_remote)]
        return local[0]
    scheme = address.partition("://")[0] if "://" in address else ""
    fitting = {wanted: name for name, factory in reversed(factories.items()) for wanted in factory.schemes}
    return fitting.get(scheme) or fitting[""]


def client_properties() -> dict[str, str]:
    """The allowed client properties of all log systems: name → VALUE, FILE, VALUE_OR_FILE or SERVER (``factory``)."""
    factories: dict[str, LogFactory] = LOG_SYSTEMS.importable()
    return {name: sort for factory in reversed(factories.values()) for name, sort in factory.properties.items()}

"""The registries of parts that an option chooses from: one line for each part.

A package outside of lakelog adds a line in its ``pyproject.toml``, as an entry point of the group named here::

    [project.entry-points."lakelog.merge_engines"]
    longest = "my_package.longest:Longest"
"""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.registry import Registry

MERGE_ENGINES: Final[Registry[Any]] = Registry(
    "merge engine",
    {
        "deduplicate": "lakelog.merge.engines.deduplicate:Deduplicate",
        "partial-update": "lakelog.merge.engines.partial_update:PartialUpdate",
        "aggregation": "lakelog.merge.engines.aggregation:Aggregation",
        "first-row": "lakelog.merge.engines.first_row:FirstRow",
    },
    group="lakelog.merge_engines",
)
"""Value of ``merge-engine`` → subclass of ``merge.base.MergeEngine``."""

LOG_SYSTEMS: Final[Registry[Any]] = Registry(
    "log system",
    {
        "embedded": "lakelog.logstore.embedded:EMBEDDED",
        "kafka": "lakelog.logstore.kafka:KAFKA",
        "pulsar": "lakelog.logstore.pulsar:PULSAR",
        "files": "lakelog.logstore.files:FILES",
    },
    group="lakelog.log_systems",
)
"""Value of ``log-store.type`` → ``logstore.factory.LogFactory``."""

LOG_FORMATS: Final[Registry[Any]] = Registry(
    "log format",
    {
        "debezium-json": "lakelog.logstore.formats.debezium_json:DebeziumJson",
        "arrow": "lakelog.logstore.formats.arrow:ArrowMessages",
        "avro": "lakelog.logstore.formats.avro:Avro",
        "plain-json": "lakelog.logstore.formats.plain_json:PlainJson",
        "canal-json": "lakelog.logstore.formats.canal_json:CanalJson",
        "maxwell-json": "lakelog.logstore.formats.maxwell_json:MaxwellJson",
    },
    {"urllib3": "schema-registry"},
    group="lakelog.log_formats",
)
"""Value of ``log-store.data-format`` → subclass of ``logstore.encoding.record_format.LogFormat``."""

FILE_FORMATS: Final[Registry[Any]] = Registry(
    "file format",
    {
        "parquet": "lakelog.fileformat.parquet:ParquetFormat",
        "orc": "lakelog.fileformat.orc:OrcFormat",
        "avro": "lakelog.fileformat.avro:AvroFormat",
    },
    group="lakelog.file_formats",
)
"""Value of ``file.format`` and file name extension → subclass of ``fileformat.base.FileFormat``."""

CATALOGS: Final[Registry[Any]] = Registry(
    "catalog",
    {
        "filesystem": "lakelog.catalog.kinds.filesystem:FilesystemCatalog",
        "sql": "lakelog.catalog.kinds.sql:SqlCatalog",
        "rest": "lakelog.catalog.kinds.rest:RestCatalog",
    },
    {"sqlalchemy": "sql-catalog", "urllib3": "rest"},
    group="lakelog.catalogs",
)
"""Value of ``catalog.type`` → subclass of ``catalog.base.Catalog``, made of (warehouse, storage, its other options)."""

INGESTS: Final[Registry[Any]] = Registry(
    "source of ingest",
    {
        "postgres": "lakelog.service.ingest.ingest:Ingest",
        "postgresql": "lakelog.service.ingest.ingest:Ingest",
    },
    {"psycopg": "postgres"},
)
"""Scheme of an address → the class that copies tables of such a database and follows their changes."""

CONDITIONS: Final[Registry[Any]] = Registry(
    "language of conditions", {"sql": "lakelog.sql.query.predicate_parser:parse_filter"}
)
"""Language of a stored condition → function of (text, schema) that returns a ``Predicate``; writes load it."""

SECRETS: Final[Registry[Any]] = Registry(
    "provider of secrets",
    {
        "env": "lakelog.io.secret_providers:from_environment",
        "file": "lakelog.io.secret_providers:from_file",
    },
    group="lakelog.secrets",
)
"""Provider in ``secret:<provider>:<name>`` → function of the name that returns the secret, or raises InvalidOption."""

LOCKS: Final[Registry[Any]] = Registry(
    "lock",
    {"file": "lakelog.io.locks.file:FileLock", "sql": "lakelog.io.locks.sql:SqlLock"},
    {"sqlalchemy": "sql-catalog"},
)
"""Value of ``storage.lock`` → subclass of ``io.storage.delegating.CreateLock``, made of its address."""

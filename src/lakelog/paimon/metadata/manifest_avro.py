"""Avro schemas of the metadata files, as Paimon 1.4 writes them (format sheet 4)."""

from __future__ import annotations

from typing import Any, Final

MANIFEST_VERSION: Final = 2
"""``_VERSION`` of manifest lists and manifests; readers of the format refuse any other."""
INDEX_MANIFEST_VERSION: Final = 1

_NAME = "org.apache.paimon.avro.generated.record"

Avro = dict[str, Any]


def _required(name: str, kind: Any) -> Avro:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> Avro:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any) -> Avro:
    return {"type": "array", "items": items}


def _record(suffix: str, fields: list[Avro]) -> Avro:
    return {"type": "record", "name": _NAME + suffix, "fields": fields}


def _stats(suffix: str) -> Avro:
    return _record(
        suffix,
        [
            _required("_MIN_VALUES", "bytes"),
            _required("_MAX_VALUES", "bytes"),
            _optional("_NULL_COUNTS", _array(["null", "long"])),
        ],
    )


MANIFEST_LIST_SCHEMA: Final[Avro] = _record(
    "",
    [
        _required("_VERSION", "int"),
        _required("_FILE_NAME", "string"),
        _required("_FILE_SIZE", "long"),
        _required("_NUM_ADDED_FILES", "long"),
        _required("_NUM_DELETED_FILES", "long"),
        _required("_PARTITION_STATS", _stats("__PARTITION_STATS")),
        _required("_SCHEMA_ID", "long"),
        _optional("_MIN_BUCKET", "int"),
        _optional("_MAX_BUCKET", "int"),
        _optional("_MIN_LEVEL", "int"),
        _optional("_MAX_LEVEL", "int"),
        _optional("_MIN_ROW_ID", "long"),
        _optional("_MAX_ROW_ID", "long"),
    ],
)

_FILE: Final[Avro] = _record(
    "__FILE",
    [
        _required("_FILE_NAME", "string"),
        _required("_FILE_SIZE", "long"),
        _required("_ROW_COUNT", "long"),
        _required("_MIN_KEY", "bytes"),
        _required("_MAX_KEY", "bytes"),
        _required("_KEY_STATS", _stats("__FILE__KEY_STATS")),
        _required("_VALUE_STATS", _stats("__FILE__VALUE_STATS")),
        _required("_MIN_SEQUENCE_NUMBER", "long"),
        _required("_MAX_SEQUENCE_NUMBER", "long"),
        _required("_SCHEMA_ID", "long"),
        _required("_LEVEL", "int"),
        _required("_EXTRA_FILES", _array("string")),
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        _optional("_VALUE_STATS_COLS", _array("string")),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_FIRST_ROW_ID", "long"),
        _optional("_WRITE_COLS", _array("string")),
    ],
)

MANIFEST_SCHEMA: Final[Avro] = _record(
    "",
    [
        _required("_VERSION", "int"),
        _required("_KIND", "int"),
        _required("_PARTITION", "bytes"),
        _required("_BUCKET", "int"),
        _required("_TOTAL_BUCKETS", "int"),
        _required("_FILE", _FILE),
    ],
)

_DELETION_VECTORS: Final[Avro] = _record(
    "__DELETIONS_VECTORS_RANGES",
    [
        _required("f0", "string"),
        _required("f1", "int"),
        _required("f2", "int"),
        _optional("_CARDINALITY", "long"),
    ],
)

_GLOBAL_INDEX: Final[Avro] = _record(
    "__GLOBAL_INDEX",
    [
        _required("_ROW_RANGE_START", "long"),
        _required("_ROW_RANGE_END", "long"),
        _required("_INDEX_FIELD_ID", "int"),
        _optional("_EXTRA_FIELD_IDS", _array("int")),
        _optional("_INDEX_META", "bytes"),
    ],
)

INDEX_MANIFEST_SCHEMA: Final[Avro] = _record(
    "",
    [
        _required("_VERSION", "int"),
        _required("_KIND", "int"),
        _required("_PARTITION", "bytes"),
        _required("_BUCKET", "int"),
        _required("_INDEX_TYPE", "string"),
        _required("_FILE_NAME", "string"),
        _required("_FILE_SIZE", "long"),
        _required("_ROW_COUNT", "long"),
        _optional("_DELETIONS_VECTORS_RANGES", _array(["null", _DELETION_VECTORS])),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_GLOBAL_INDEX", _GLOBAL_INDEX),
    ],
)

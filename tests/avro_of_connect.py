"""Records of Kafka Connect's JsonConverter as its AvroConverter would have written them.

Written from Confluent's description of ``AvroData`` alone, on nothing of lakelog: Connect's types, names and parameters
become Avro's types and the properties ``connect.…``, and optional ones unions with null.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from servers.schema_registry import SchemaRegistry, message

_PLAIN = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double"}
_PLAIN |= {"float32": "float", "float64": "double", "boolean": "boolean", "string": "string", "bytes": "bytes"}
_LOGICAL = {
    "org.apache.kafka.connect.data.Decimal": "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


def avro_schema(schema: Any, defined: set[str] | None = None, name: str = "ConnectDefault") -> Any:
    """The Avro schema of a Connect schema; a struct that came before is named."""
    defined = set() if defined is None else defined
    kind, own = schema["type"], schema.get("name")
    more = {key: value for key, value in (("connect.name", own), ("connect.version", schema.get("version"))) if value}
    if schema.get("parameters"):
        more["connect.parameters"] = schema["parameters"]
    made: Any
    if kind == "struct":
        space, _, word = (own or name).rpartition(".")
        made = f"{space}.{word}" if space else word
        if made not in defined:
            defined.add(made)
            fields = []
            for field in schema["fields"]:
                inner = avro_schema(field, defined, f"{own or name}_{field['field']}")
                fields.append(
                    {"name": field["field"], "type": inner, **({"default": None} if field.get("optional") else {})}
                )
            made = {"type": "record", "name": word, "namespace": space, "fields": fields, **more}
    elif kind == "array":
        made = {"type": "array", "items": avro_schema(schema["items"], defined, f"{name}_item"), **more}
    else:
        made = {"type": _PLAIN[kind], **more}
        if kind in ("int8", "int16"):
            made["connect.type"] = kind
        if own in _LOGICAL:
            made["logicalType"] = _LOGICAL[own]
        if own == "org.apache.kafka.connect.data.Decimal":
            made |= {"scale": int(schema["parameters"]["scale"]), "precision": 64}
    return ["null", made] if schema.get("optional") else made


def _value(value: Any, schema: Any) -> Any:
    if value is None:
        return None
    if schema["type"] == "struct":
        return {field["field"]: _value(value.get(field["field"]), field) for field in schema["fields"]}
    if schema["type"] == "array":
        return [_value(item, schema["items"]) for item in value]
    if schema["type"] == "bytes":
        return base64.b64decode(value)
    return float(value) if schema["type"] in ("float", "double") else value


def as_avro(registry: SchemaRegistry, subject: str, text: bytes | None) -> bytes | None:
    """A record's key or value with its schema in JSON, as Avro with the schema in a registry."""
    found = None if text is None else json.loads(text)
    if found is None or found["payload"] is None:
        return None
    schema = avro_schema({**found["schema"], "optional": False})
    plain = _without_logical(schema)
    return message(registry.add(subject, schema), plain, _value(found["payload"], found["schema"]))


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_logical(value) for key, value in schema.items() if key != "logicalType"}
    return [_without_logical(part) for part in schema] if isinstance(schema, list) else schema

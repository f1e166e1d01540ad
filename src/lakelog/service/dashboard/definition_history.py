"""What ALTER TABLE has changed: the differences between the definitions of a table, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from lakelog.lake import Table
from lakelog.options.log import shown_value
from lakelog.options.view import VIEW
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.syntax.type_parser import type_text


@dataclass(frozen=True)
class DefinitionChange:
    """A definition of the table by its number and time (ms since 1970), with what it changed. Secrets are masked."""

    schema: int
    time_ms: int
    changes: tuple[str, ...]


def definition_changes(table: Table, limit: int = 100) -> list[DefinitionChange]:
    """The newest definitions, each with its differences to the one before; the first one is the CREATE TABLE."""
    schemas = list(islice(table.logical.store.schemas.newest_first(), limit + 1))[::-1]
    out = [
        DefinitionChange(new.id, new.time_millis, tuple(_differences(old, new)) or ("no visible change",))
        for old, new in pairwise(schemas)
    ]
    if schemas and len(schemas) <= limit:
        first = f"created with {len(schemas[0].fields)} columns"
        out.insert(0, DefinitionChange(schemas[0].id, schemas[0].time_millis, (first,)))
    return out[::-1]


def _differences(old: TableSchema, new: TableSchema) -> Iterator[str]:
    before, after = ({field.id: field for field in schema.fields} for schema in (old, new))
    for id_, field in after.items():
        was = before.get(id_)
        if was is None:
            yield f"column {field.name} {type_text(field.type)} added"
            continue
        if was.name != field.name:
            yield f"column {was.name} renamed to {field.name}"
        if was.type != field.type:
            yield f"type of column {field.name}: {type_text(was.type)} → {type_text(field.type)}"
        if was.description != field.description:
            yield f"comment of column {field.name}: {field.description or 'none'}"
    yield from (f"column {field.name} dropped" for id_, field in before.items() if id_ not in after)
    for key in sorted(old.options.keys() | new.options.keys()):
        if key != VIEW.key and old.options.get(key) != new.options.get(key):
            value = new.options.get(key)
            yield f"option {key} unset" if value is None else f"option {key} = {shown_value(key, value)}"
    if old.comment != new.comment:
        yield f"comment: {new.comment or 'none'}"

"""Columns by name, for data files whose columns have no field ids: those of older versions of Apache Paimon.

Iceberg's readers take the columns of such a file by these names. Without them, a reader fails, or counts the columns
and takes the values of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakelog.filestore.iceberg.schemas import Json

NAME_MAPPING: Final = "schema.name-mapping.default"
"""Property of an Iceberg table."""


@dataclass
class NameMapping:
    """The names that each field id has or had. A name of two columns, one after the other, is that of the first.

    ``is_ambiguous`` is True if there is such a name. Pure.
    """

    fields: Sequence[Json]
    is_ambiguous: bool = False

    @staticmethod
    def of(schemas: Sequence[Json]) -> NameMapping:
        """The names in the Iceberg schemas of a table, the oldest first."""
        mapping = NameMapping(())
        mapping.fields = mapping._mapped([field for schema in schemas for field in schema["fields"]])
        return mapping

    def _mapped(self, fields: Sequence[Mapping[str, Any]]) -> list[Json]:
        by_id: dict[int, list[Mapping[str, Any]]] = {}
        owners: dict[str, int] = {}
        for field in fields:
            by_id.setdefault(field["id"], []).append(field)
            self.is_ambiguous |= owners.setdefault(field["name"], field["id"]) != field["id"]
        out: list[Json] = []
        for number, same in by_id.items():
            inner = self._mapped([part for field in same for part in _parts(field["type"])])
            names = [name for name in dict.fromkeys(field["name"] for field in same) if owners[name] == number]
            if names:
                out.append({"field-id": number, "names": names, **({"fields": inner} if inner else {})})
        return out


def _parts(kind: Any) -> Iterator[Mapping[str, Any]]:
    """The named parts of a nested type."""
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield from kind["fields"]
        return
    for part in ("element",) if kind["type"] == "list" else ("key", "value"):
        yield {"name": part, "id": kind[f"{part}-id"], "type": kind[part]}

"""The names of columns in Iceberg metadata, for data files without field ids."""

from __future__ import annotations

import json
from pathlib import Path

import orjson

from iceberg_tables import evolution, nested_evolution, open_lake
from lakelog.filestore.iceberg.name_mapping import NAME_MAPPING, NameMapping


def mapping_in(place: Path) -> list[dict[str, object]]:
    root = place / "warehouse" / "db.db" / "t" / "metadata"
    version = (root / "version-hint.text").read_text()
    return list(json.loads(orjson.loads((root / f"v{version}.metadata.json").read_bytes())["properties"][NAME_MAPPING]))


def test_a_column_has_all_names_that_it_had(tmp_path: Path) -> None:
    evolution(open_lake(tmp_path))
    names = {field["field-id"]: field["names"] for field in mapping_in(tmp_path)}
    assert names == {0: ["id"], 1: ["name", "title"], 2: ["gone"], 3: ["real"], 4: ["cost"], 6: ["at"]}


def test_parts_of_nested_columns_have_names(tmp_path: Path) -> None:
    nested_evolution(open_lake(tmp_path))
    columns = {str(field["names"][0]): field for field in mapping_in(tmp_path)}  # type: ignore[index]
    assert [part["names"] for part in columns["s"]["fields"]] == [["a"], ["b", "z"], ["c"]]  # type: ignore[attr-defined]
    (element,) = columns["l"]["fields"]  # type: ignore[misc]
    assert element["names"] == ["element"] and [part["names"] for part in element["fields"]] == [["x"]]
    assert [part["names"] for part in columns["m"]["fields"]] == [["key"], ["value"]]  # type: ignore[attr-defined]


def test_a_name_of_two_columns_is_that_of_the_first() -> None:
    def schema(*fields: tuple[int, str]) -> dict[str, object]:
        return {"fields": [{"id": number, "name": name, "type": "int"} for number, name in fields]}

    made = NameMapping.of([schema((0, "a"), (1, "b")), schema((0, "c"), (2, "b"))])
    assert made.is_ambiguous
    assert made.fields == [
        {"field-id": 0, "names": ["a", "c"]},
        {"field-id": 1, "names": ["b"]},
    ]
    assert not NameMapping.of([schema((0, "a")), schema((0, "b"), (1, "c"))]).is_ambiguous

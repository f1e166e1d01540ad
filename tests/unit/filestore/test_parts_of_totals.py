"""A total that does not fit its column is NULL in a table whose readers see compacted rows alone, and not lost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.iceberg.data_files import ExportedFiles
from lakelog.filestore.metadata.levels import is_apart
from lakelog.filestore.store import FileStore
from lakelog.io import clock
from lakelog.paimon.types.types import parse_type
from unit.filestore.test_compaction_changelog import D, I, apply, make_like, told

PLACE = (b"\x00" * 12, 0)
SHOWN = (
    {"deletion-vectors.enabled": "true"},
    {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"force-lookup": "true"},
)
MOST = {"DECIMAL(9, 2)": Decimal("9999999.99"), "TINYINT": 127, "BIGINT": 2**63 - 1}


def sums(make_table, kind: str, options: dict[str, str]):
    """A table with the sum, the maximum and the newest of its values."""
    functions = {f"fields.{name}.aggregate-function": f for name, f in (("n", "sum"), ("t", "last_value"))}
    table = make_table(columns=(("id", "INT NOT NULL"), ("n", kind), ("t", "INT")))
    return make_like(table, {"merge-engine": "aggregation", **functions, **options})


def rows(table) -> dict[int, tuple]:
    return {r["id"]: (r["n"], r["t"]) for r in table.read()}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", [*MOST, "TINYINT NOT NULL"])
@pytest.mark.parametrize("options", SHOWN)
def test_a_total_fits_again(make_table, options, kind, full) -> None:
    most = MOST[kind.removesuffix(" NOT NULL")]
    table = sums(make_table, kind, options)
    full = full or options.get("changelog-producer") == "full-compaction"
    followed: dict[int, tuple] = {}
    expected = ((most, None), (None, None), (None, None), (None, None), (most, None), (0, None))
    for turn, (kind_of_row, (total, _)) in enumerate(zip((I, I, I, D, D, D), expected, strict=True)):
        table.insert((kind_of_row, 1, most, turn), (I, 2, 0, turn))
        snapshot = table.store.compact(*PLACE, full)
        assert rows(table)[1][0] == total
        assert table.store.compact(*PLACE, full) is None  # the parts are no work
        assert table.store.compact(*PLACE, True) is None or not full
        apply(followed, told(table.store, snapshot))
        assert followed in ({}, rows(table))
    assert not any(is_apart(e.file) for e in table.store.live_entries(table.store.latest_snapshot()))


@pytest.mark.parametrize("options", SHOWN)
def test_a_total_that_does_not_fit_is_no_change_of_its_key(make_table, options) -> None:
    table = sums(make_table, "TINYINT", options)
    for turn in range(3):
        table.insert((I, 1, 127, turn))
        table.store.compact(*PLACE, full=True)
    table.insert((I, 2, 1, 9))
    assert [change[1] for change in told(table.store, table.store.compact(*PLACE, full=True))] in ([], [2])
    assert rows(table) == {1: (None, 2), 2: (1, 9)}


def test_parts_of_a_row_that_is_old_go_with_it(make_table) -> None:
    table = sums(make_table, "TINYINT", {"deletion-vectors.enabled": "true"})
    for _ in range(2):
        table.insert((I, 1, 127, 100))
        table.store.compact(*PLACE)
    expiry = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
    schema = replace(table.store.schema, options={**table.store.schema.options, **expiry})
    store = FileStore(table.store.io, table.store.table_path, schema)
    table.insert((I, 2, 1, clock.now_ms() // 1000))
    store.compact(*PLACE, full=True)
    assert [row["id"] for row in table.read()] == [2]
    assert not any(is_apart(e.file) for e in store.live_entries(store.latest_snapshot()))


@pytest.mark.parametrize("options", SHOWN[::3])
def test_iceberg_gets_no_missing_value_in_a_column_that_needs_one(make_table, options) -> None:
    table = sums(make_table, "TINYINT NOT NULL", options)
    for turn in range(2):
        table.insert((I, 1, 127, turn))
        table.store.compact(*PLACE, full=True)
    store = table.store
    with pytest.raises(UnsupportedFeature, match="totals that do not fit"):
        ExportedFiles(store.manifests, store.schemas, 3).pick(store.live_entries(store.latest_snapshot()), store.schema)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("options", SHOWN)
def test_a_total_fits_a_wider_type_once_it_is_compacted(make_table, options, full) -> None:
    table = sums(make_table, "TINYINT", options)
    for turn in range(2):
        table.insert((I, 1, 127, turn))
        table.store.compact(*PLACE, full=True)
    old = table.store.schema
    fields = tuple(replace(f, type=parse_type("INT")) if f.name == "n" else f for f in old.fields)
    wide = replace(old, id=1, fields=fields)
    table.store.io.write(f"{table.store.table_path}/schema/schema-1", wide.to_json())
    table = type(table)(FileStore(table.store.io, table.store.table_path, wide))
    table.store.compact(*PLACE, full)
    assert rows(table) == {1: (254, 1)}
    assert table.store.compact(*PLACE, full) is None

"""Every merge engine with every changelog producer against a table said in plain words.

Random writes and compactions; after each one the batch read, two filters and what a stream is told must be the words',
and in the end every snapshot and the whole changelog. ``LAKELOG_DEPTH=night`` tries more of them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsm_model import Model, Variant, replayed
from lsm_world import World, new_store

from depth import DEPTH
from merge_reference import FOLDS, Latest, Table, plain_table

pytestmark = pytest.mark.usefixtures("new_parts")

ALL = (0, 0, 2, 1, 3)
GROUPS = ((("g",), ("s", "a")), (("h",), ("b",)))
IN_GROUPS = {"s": "INT", "a": "STRING", "g": "INT", "h": "INT", "b": "INT", "p": "STRING"}
AGGREGATED = {"s": "INT", "mx": "INT", "lst": "STRING", "fv": "INT", "x": "INT"}
FUNCTIONS = {"s": "sum", "mx": "max", "lst": "listagg", "fv": "first_value"}
PLAIN = {"v": "INT", "w": "STRING"}

VARIANTS = {
    **{engine: Variant(plain_table(engine)) for engine in FOLDS},
    "deduplicate with deletes": Variant(Table("deduplicate", PLAIN), ALL),
    "deduplicate without deletes": Variant(Table("deduplicate", PLAIN, flags=frozenset(["ignore-delete"])), ALL),
    "deduplicate by fields": Variant(Table("deduplicate", PLAIN, sequence=("v", "w"))),
    "deduplicate by the smallest": Variant(
        Table("deduplicate", PLAIN, sequence=("v",), flags=frozenset(["descending", "ignore-delete"])), ALL
    ),
    "aggregation by functions": Variant(Table("aggregation", AGGREGATED, FUNCTIONS)),
    "aggregation by a field": Variant(
        Table("aggregation", {"s": "INT", "t": "STRING", "x": "INT"}, {"s": "sum", "t": "max"}, sequence=("x",))
    ),
    "aggregation that takes back": Variant(
        Table("aggregation", {"s": "INT", "l": "STRING"}, {"s": "sum", "l": "last_value"}), ALL, retracts_live=True
    ),
    "aggregation that removes": Variant(
        Table("aggregation", AGGREGATED, FUNCTIONS, flags=frozenset(["remove"])), (0, 0, 2, 3), dies_once=True
    ),
    "partial-update without deletes": Variant(Table("partial-update", PLAIN, flags=frozenset(["ignore-delete"])), ALL),
    "partial-update that removes": Variant(
        Table("partial-update", PLAIN, flags=frozenset(["remove"])), (0, 0, 2, 3), dies_once=True
    ),
    "groups": Variant(Table("partial-update", IN_GROUPS, groups=GROUPS), never_null=frozenset("gh")),
    "groups with functions": Variant(
        Table("partial-update", IN_GROUPS, {"s": "sum", "a": "max"}, GROUPS), never_null=frozenset("gh")
    ),
    "latest with deletes": Variant(Latest("latest", PLAIN), ALL),
    "first-row without deletes": Variant(Table("first-row", PLAIN, flags=frozenset(["ignore-delete"])), ALL),
}

VECTORS = {"deletion-vectors.enabled": "true"}
ROW_BY_ROW = {"changelog-producer.row-deduplicate": "true"}
PRODUCERS: dict[str, dict[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup of what differs": {"changelog-producer": "lookup", **ROW_BY_ROW},
    "full compaction": {"changelog-producer": "full-compaction"},
    "full compaction of what differs": {"changelog-producer": "full-compaction", **ROW_BY_ROW},
    "vectors": VECTORS,
    "long vectors": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "vectors and input": {**VECTORS, "changelog-producer": "input"},
    "vectors and lookup": {**VECTORS, "changelog-producer": "lookup"},
    "vectors merged on read": {**VECTORS, "deletion-vectors.merge-on-read": "true"},
}
"""Changelog producers, with and without deletion vectors: what the test is called → the options of the table."""


def fits(name: str, options: dict[str, str]) -> bool:
    """Whether the format lets a merge engine have these options."""
    if not name.startswith("first-row"):
        return True
    return options.get("changelog-producer", "none") in ("none", "lookup") and "deletion-vectors.enabled" not in options


@st.composite
def changes(draw: st.DrawFn, variant: Variant) -> list[tuple[int, int, dict[str, Any]]]:
    values = {
        name: (st.sampled_from(["a", "b"]) if kind == "STRING" else st.integers(0, 3))
        if name in variant.never_null
        else st.none() | (st.sampled_from(["a", "b"]) if kind == "STRING" else st.integers(0, 3))
        for name, kind in variant.table.columns.items()
    }
    row = st.tuples(st.integers(0, 5), st.sampled_from(variant.kinds), st.fixed_dictionaries(values))
    return draw(st.lists(row, min_size=1, max_size=8))


@pytest.mark.parametrize("producer", PRODUCERS)
@settings(max_examples=DEPTH.cases(5))
@given(data=st.data())
def test_a_table_behaves_like_its_model(producer: str, data: st.DataObject) -> None:
    options = PRODUCERS[producer]
    name = data.draw(st.sampled_from([name for name in VARIANTS if fits(name, options)]), "engine")
    variant = VARIANTS[name]
    merges_new = "deletion-vectors.enabled" not in options or "deletion-vectors.merge-on-read" in options
    hides_new = variant.table.engine == "first-row" or not merges_new
    kind = options.get("changelog-producer", "none")
    deduplicates = options.get("changelog-producer.row-deduplicate") == "true"
    world = World(variant, Model(variant, kind, deduplicates, hides_new), new_store(variant, options))
    steps = data.draw(
        st.lists(st.sampled_from(["write", "write", "write", "compact", "compact fully"]), min_size=4, max_size=12)
    )
    for step in steps:
        if step == "write":
            world.write(data.draw(changes(variant), "rows"))
        else:
            world.compact(full=step == "compact fully")
    world.check_history()
    if kind in ("lookup", "full-compaction"):
        world.compact(full=True)
        assert replayed(world.told) == world.model.state()

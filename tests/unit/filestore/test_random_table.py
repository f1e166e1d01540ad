"""A table under random writes, deletes, compactions and unsealed rows is a plain dict."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakelog.filestore.skipping.predicate import Compare, In

I, D = 0, 3  # noqa: E741 - row kinds
COLUMNS = (("day", "STRING"), ("id", "INT"), ("name", "STRING"))


@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_a_dict_that_is_updated_in_commit_order(make_table, seed: int) -> None:
    chance = random.Random(seed)
    table = make_table(
        ("day", "id"), ("day",), COLUMNS, bucket="2", num_sorted_run_compaction_trigger="3",
        manifest_merge_min_count="4", target_file_size="1 kb",
    )  # fmt: skip
    state: dict[tuple[str, int], str] = {}

    def change(at: int) -> list[tuple[Any, ...]]:
        made = []
        for _ in range(chance.randrange(1, 60)):
            key = (chance.choice("ab"), chance.randrange(120))
            if chance.random() < 0.25:
                made.append((D, *key, None))
                state.pop(key, None)
            else:
                made.append((I, *key, f"{at}-{chance.random()}"))
                state[key] = made[-1][3]
        return made

    for at in range(15):
        table.insert(*change(at))
        if chance.random() < 0.5:
            for partition, bucket in table.store.buckets_to_compact(full=chance.random() < 0.3):
                table.store.compact(partition, bucket)
        rows = {(row["day"], row["id"]): row["name"] for row in table.read()}
        assert rows == state
    low, high = sorted(chance.sample(range(120), 2))
    predicate = In("id", tuple(range(low, high)))
    assert len(table.read(filter=predicate)) == sum(low <= i < high for _, i in state)
    one = Compare("name", "=", next(iter(state.values())))
    assert len(table.read(filter=one)) == 1


def test_manifests_of_other_partitions_are_not_read(make_table) -> None:
    table = make_table(("day", "id"), ("day",), COLUMNS)
    for day in ("mon", "tue", "wed"):
        table.insert((I, day, 1, "x"))
    latest = table.store.latest_snapshot()
    metas = table.store.manifests.manifests_of(latest)
    assert [(m.num_added_files, m.min_bucket, m.max_level) for m in metas] == [(1, 0, 0)] * 3
    for meta in metas[:2]:
        table.store.io.delete(table.store.paths.manifest(meta.file_name))
    # the same files under another name, so that nothing comes from the memory of this process
    fresh = table.store.__class__(table.store.io, "memory:" + table.store.table_path, table.store.schema)
    assert len(fresh.plan(filter=Compare("day", "=", "wed"))) == 1

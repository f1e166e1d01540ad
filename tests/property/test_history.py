"""Any mix of commits, overwrites, compactions, tags, branches, expiry, rollback and orphan cleaning against a model."""

from __future__ import annotations

import random

from history_world import MAIN, PATH, World

from depth import Depth

STEPS = 30


def step(world: World, dice: random.Random) -> None:
    """One random change of a table and its model."""
    model = world.model
    branch = dice.choice(sorted(model.snapshots))
    held, tags = model.snapshots[branch], model.tags[branch]
    rows = {dice.randrange(8): dice.choice([None, "a", "b", "c"]) for _ in range(3)}
    free = [f"t{n}" for n in range(4) if not any(f"t{n}" in t for t in model.tags.values())]
    others = sorted(b for b in model.snapshots if b != MAIN)
    action = dice.choice(
        ["write"] * 6 + ["overwrite", "compact", "compact", "tag", "tag", "untag", "branch", "unbranch", "forward"]
        + ["expire"] * 3 + ["rollback", "to_tag", "clean"]
    )  # fmt: skip
    if action in ("write", "overwrite"):
        world.write(rows, branch, overwrite=action == "overwrite")
    elif action == "compact" and held:
        world.compact(branch, full=dice.random() < 0.5)
    elif action == "tag" and held and free:
        world.tag(free[0], dice.choice(sorted(held)), branch)
    elif action == "untag" and tags:
        world.delete_tag(dice.choice(sorted(tags)), branch)
    elif action == "branch" and len(others) < 2:
        name = next(n for n in ("dev", "test") if n not in others)
        world.branch(name, dice.choice([None, *sorted(model.tags[MAIN])]))
    elif action == "unbranch" and others:
        world.delete_branch(dice.choice(others))
    elif action == "forward" and others and model.snapshots[others[0]]:
        world.fast_forward(others[0])
    elif action == "expire" and held:
        world.expire(dice.randint(1, 4), branch)
    elif action == "rollback" and held:
        world.rollback(dice.choice(sorted(held)), branch)
    elif action == "to_tag" and tags:
        world.rollback_to_tag(dice.choice(sorted(tags)), branch)
    elif action == "clean":
        world.clean()
        world.check_no_leak()


def test_all_that_must_stay_is_readable_after_every_step(depth: Depth) -> None:
    for seed in (50, *depth.seeds(20)):
        dice = random.Random(seed)
        world = World.make(num_sorted_run__compaction_trigger="2")
        for _ in range(STEPS):
            step(world, dice)
            world.check()
        world.clean()
        world.check()
        world.check_no_leak()


def test_a_file_that_is_not_of_the_format_stays() -> None:
    world = World.make()
    world.write({1: "a"})
    strange = [f"{PATH}/bucket-0/notes.txt", f"{PATH}/manifest/README", f"{PATH}/else/data-1.parquet"]
    for path in strange:
        world.io.write(path, b"mine")
    world.clean()
    assert all(world.io.exists(path) for path in strange)

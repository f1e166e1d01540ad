"""Spark's reader of whole changes without Spark around it: any cut, any restart, the same changelog."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from changelogs import folded
from lakelog.errors import InvalidRequest
from lakelog.lake.table import Table
from lakelog.spark.compat.sources import ReadAllAvailable
from lakelog.spark.read import log_stream_reader as stream_reader
from lakelog.spark.read.log_stream_reader import LakelogStreamReader
from lakelog.spark.read.normalized_reader import NormalizedStreamReader
from lakelog.spark.realtime.realtime import read_changes
from lakelog.spark.runtime.types import spark_schema
from lakelog.table.log.scan import LogScan
from lakelog.table.tail import normalizer
from limits import limit
from log_tables import files, make, rows

WHOLE = {"read.mode": "log", "log.consumer.normalize": "true"}


def reader(table: Table, kind: type[LakelogStreamReader] = NormalizedStreamReader, **options: str):
    hinted = table.logical.with_hints({**WHOLE, **options})
    return kind(hinted, spark_schema(LogScan(hinted).schema))


def ask(source: LakelogStreamReader, at: dict[str, Any], dice: random.Random) -> tuple[dict[str, Any], list[dict]]:
    """One micro-batch: its end and rows; tasks run in another process, some of them twice."""
    end = source.latestOffset(at, ReadAllAvailable())
    return end, run(source, at, end, dice)


def run(source: LakelogStreamReader, at: dict[str, Any], end: dict[str, Any], dice: random.Random) -> list[dict]:
    if end == at:
        return []
    parts = pickle.loads(pickle.dumps(source.partitions(at, end)))
    held = source.getCache(at, end)
    if held is not None:
        return [row for batch in held for row in batch.to_pylist()]
    out: list[dict] = []
    for part in parts:
        if dice.random() < 0.3:
            list(source.read(part))  # a speculative one
        out += [row for batch in source.read(part) for row in batch.to_pylist()]
    return out


def caught_up(source: LakelogStreamReader, at: dict[str, Any]) -> bool:
    """Whether all of the log is read, what tells nothing too, for which there is no micro-batch."""
    position = source._from_json(at)
    return position.full is None and source._seen(dict(position.offsets)) == source._scan.reader.end_offsets()


def write(table: Table, dice: random.Random) -> None:
    """A commit of random changes, or rows of a writer that are taken back again."""
    writer = table.writer()
    for _ in range(dice.randint(1, 4)):
        ids = dice.sample(range(8), dice.randint(1, 4))
        kinds = [dice.choice(["+I", "+U", "-D"]) for _ in ids]
        writer.write(rows(*ids, name=dice.choice("abc"), kinds=kinds))
    if dice.random() < 0.25:
        writer.flush()
        writer.abort()
    else:
        writer.commit()
        writer.close()


def history(seed: int, start: str, form: str, path: Path, patch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    if dice.random() < 0.6:  # no micro-batch is read while planning
        patch.setattr(stream_reader, "_PREFETCH_ROWS", 0)
        patch.setattr(stream_reader, "_PREFETCH_AT_LEAST", 0)
    patch.setattr(normalizer, "_SAVE_ROWS", dice.choice([1, 10, 1000]))
    patch.setattr(normalizer, "_LOOKUP_ROWS", dice.choice([1, 3, 100]))
    patch.setattr(normalizer, "_DELETE_INTERVAL_S", dice.choice([-1.0, 1000.0]))
    limit(patch, keyed_bytes=dice.choice([1, 1 << 20]))
    options = {"scan.startup.mode": start, "read.max-rows-per-trigger": str(dice.choice([1, 5, 1000]))}
    table = make(path, f", 'log-store.data-format' = '{form}'")
    for _ in range(dice.randint(0, 4)):
        write(table, dice)
    source = reader(table, **options)
    at = source.initialOffset()
    told: list[dict] = []
    done = 0
    while done < 14:
        if dice.random() < 0.5:
            write(table, dice)
        if dice.random() < 0.2 and "full" not in at:
            table.compact(on_spark=False)
        end, found = ask(source, at, dice)
        if end == at:
            done += 1
            continue
        done += 1
        if dice.random() < 0.3:  # the query dies behind this micro-batch, and repeats it
            source = reader(table, **options)
            if "initial" in at:
                at = reader(table, **options).initialOffset()
            assert sorted(map(str, run(source, at, end, dice))) == sorted(map(str, found))
        told += found
        source.commit(end)
        at = end
        if dice.random() < 0.2:
            if dice.random() < 0.5:
                source.stop()
            source = reader(table, **options)
    while not caught_up(source, at):
        end, found = ask(source, at, dice)
        told += found
        if end != at:
            source.commit(end)
        at = end
    state = folded(told)
    if start != "latest":
        assert sorted((r["id"], r["name"]) for r in state.values()) == files(table)


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
@pytest.mark.parametrize("start", ["latest-full", "earliest", "latest"])
def test_any_cut_and_any_restart_give_a_whole_changelog(tmp_path, monkeypatch, start, form, depth) -> None:
    for seed in depth.seeds(4):
        with monkeypatch.context() as patch:
            history(seed, start, form, tmp_path / str(seed), patch)


def test_the_real_time_path_refuses_it(tmp_path) -> None:
    with pytest.raises(InvalidRequest, match=r"'log\.consumer\.normalize' of table db\.t needs a state"):
        read_changes(None, make(tmp_path).logical.with_hints(WHOLE), None)  # type: ignore[arg-type]


def test_the_checkpoint_of_a_query_that_gave_upserts_is_refused(tmp_path) -> None:
    table = make(tmp_path)
    plain = reader(table, LakelogStreamReader)
    start = plain.initialOffset()
    with pytest.raises(InvalidRequest, match=r"log\.consumer\.normalize"):
        reader(table).latestOffset(start, ReadAllAvailable())


def test_a_reader_with_open_states_goes_on_in_another_process(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(*range(10)))
    source, dice = reader(table, **{"scan.startup.mode": "earliest"}), random.Random(1)
    at, first = ask(source, source.initialOffset(), dice)
    source.stop()
    source = reader(table, **{"scan.startup.mode": "earliest"})
    table.write(rows(*range(5), name="b"))
    end, found = ask(source, at, dice)
    assert source._states is not None and any(state._open for state, *_ in source._states._held.values())
    other = pickle.loads(pickle.dumps(source))
    assert sorted(map(str, run(other, at, end, dice))) == sorted(map(str, found))
    table.write(rows(*range(10), name="c"))
    told = [*first, *found, *ask(other, end, dice)[1]]
    assert {(row["id"], row["name"]) for row in folded(told).values()} == {(n, "c") for n in range(10)}

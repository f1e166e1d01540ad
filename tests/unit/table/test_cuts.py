"""Cuts of several tables: what a reader sees of a moment, whatever has become of the tables since."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from faults import DEATHS, FAIL_AFTER, FAIL_BEFORE, LOST, LOST_REQUEST, Died, FaultPlan, FaultyFileIO
from lakelog import Lake, connect
from lakelog.errors import (
    CommitUnknown,
    InvalidOption,
    InvalidRequest,
    NotFound,
    TableReplaced,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.table.cuts import writer as cut_writer
from lakelog.table.cuts.cut import Cut
from lakelog.table.cuts.reading import newest_cut
from lakelog.table.cuts.writer import CutTable, forget_cuts, record_cut
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.positioned_writer import PositionedWriter

NAMES = ("db.a", "db.b", "db.c")
LOGS: dict[str, dict[str, str]] = {"no log": {}, "log": {"log-store.enabled": "true"}}


class Source:
    """A group of tables that one process fills; a step writes the same number to some of them."""

    def __init__(self, place: Path, options: Mapping[str, str] | None = None, names: Sequence[str] = NAMES) -> None:
        self.lake = connect(warehouse=str(place / "warehouse"))
        for name in names:
            self.lake.create_table(
                name, {"id": "int", "v": "int"}, primary_key="id", options={"write-only": "true", **(options or {})}
            )
        self.names, self.group = names, "g"
        self.writers = {name: PositionedWriter(self.lake.table(name).logical, "ingest-g") for name in names}

    def write(self, value: int, *names: str) -> None:
        """Writes a value as row 1 of tables, as one transaction of the source."""
        for name in names or self.names:
            batch = pa.record_batch({"id": pa.array([1], pa.int32()), "v": pa.array([value], pa.int32())})
            self.writers[name].write(batch)
            self.writers[name].commit(str(value))

    def members(self) -> list[CutTable]:
        found = []
        for name in self.names:
            snapshot = self.writers[name].sealed()
            assert snapshot is not None
            found.append(CutTable(self.lake.table(name).logical, snapshot))
        return found

    def cut(self, value: int) -> Cut | None:
        """Writes a value to all tables, and records the cut."""
        self.write(value)
        return record_cut(self.group, self.members(), str(value))


@pytest.fixture
def source(tmp_path) -> Source:
    return Source(tmp_path)


def value(lake: Lake, name: str, **options: str) -> int | None:
    keys = {key.replace("_", "."): given for key, given in options.items()}
    rows = lake.table(name).scan(options=keys).to_arrow().to_pylist()
    return rows[0]["v"] if rows else None


def values(lake: Lake, *names: str, **more: str) -> set[int | None]:
    """The values of tables at their newest cut."""
    cut = lake.cut(names)
    return {value(lake, name, read_cut=cut.name, **more) for name in names}


@pytest.mark.parametrize("log", LOGS)
def test_a_cut_is_one_moment_in_files_and_union(tmp_path, log) -> None:
    source = Source(tmp_path, LOGS[log])
    assert source.cut(1) is not None
    source.write(2, "db.a")
    source.writers["db.a"].seal()
    source.write(3, "db.b")
    for mode in ("file", "union"):
        assert values(source.lake, *NAMES, read_mode=mode) == {1}
    assert value(source.lake, "db.a", read_cut="newest") == 1
    assert value(source.lake, "db.a") == 2
    found = source.lake.cut(["db.b"])
    assert (found.position, list(found.tables)) == ("1", list(NAMES))
    assert abs(datetime.now(UTC) - found.time) < timedelta(hours=1)
    assert source.lake.table("db.c").scan(options=found.options).to_arrow().num_rows == 1


def test_a_snapshot_with_more_or_less_than_the_position_is_no_member(source) -> None:
    source.write(1)
    assert source.writers["db.a"].sealed() is not None
    other = PositionedWriter(source.lake.table("db.a").logical, "ingest-g")  # another process goes on
    other.commit("2")
    other.seal()
    assert source.writers["db.a"].sealed() is None


def test_epochs_that_a_dead_process_has_not_sealed_are_in_the_snapshot(source) -> None:
    source.write(1)
    after = PositionedWriter(source.lake.table("db.a").logical, "ingest-g")
    assert after.position == "1"
    assert after.sealed() is not None
    assert value(source.lake, "db.a") == 1


def test_a_table_without_changes_keeps_its_snapshot(source) -> None:
    source.cut(1)
    kept = source.lake.table("db.c").latest_snapshot()
    source.write(2, "db.a", "db.b")
    record_cut("g", source.members(), "2")
    assert kept is not None and source.lake.cut(NAMES).tables["db.c"] == kept.id
    assert [value(source.lake, name, read_cut="newest") for name in NAMES] == [2, 2, 1]


def test_rows_that_no_compaction_has_merged_are_in_a_cut(tmp_path) -> None:
    source = Source(tmp_path, {"deletion-vectors.enabled": "true"})
    source.cut(1)
    assert (value(source.lake, "db.a"), values(source.lake, *NAMES)) == (None, {1})


def faulty(members: Sequence[CutTable], plan: FaultPlan) -> list[CutTable]:
    """The members, all over one storage with faults."""

    def over(table: DynamicTable) -> DynamicTable:
        location = dataclasses.replace(table.location)
        object.__setattr__(location, "io", FaultyFileIO(table.io, plan))
        return DynamicTable(location)

    return [CutTable(over(one.table), one.snapshot) for one in members]


def changes_of_a_cut(place: Path) -> int:
    """The number of writes of cut 4, after which older ones are deleted."""
    source, plan = Source(place), FaultPlan()
    for number in range(1, 4):
        source.cut(number)
    source.write(4)
    record_cut("g", faulty(source.members(), plan), "4")
    return len(plan.calls)


@pytest.mark.parametrize("kind", [*DEATHS, FAIL_BEFORE, FAIL_AFTER, LOST, LOST_REQUEST])
def test_a_crash_between_any_two_writes_leaves_a_cut(tmp_path, monkeypatch, kind) -> None:
    monkeypatch.setattr(cut_writer, "KEPT_CUTS", 2)
    monkeypatch.setattr(cut_writer, "_FORGET_EVERY", 2)
    for number in range(1, 1 + changes_of_a_cut(tmp_path / "all")):
        source, plan = Source(tmp_path / str(number)), FaultPlan({number: kind})
        for old in range(1, 4):
            source.cut(old)
        source.write(4)
        with pytest.raises((Died, Unavailable, CommitUnknown)):
            record_cut("g", faulty(source.members(), plan), "4")
        assert plan.hit
        found = values(source.lake, *NAMES)
        assert found in ({3}, {4}), (number, kind)
        for name in NAMES:
            assert value(source.lake, name, read_cut="newest") in (3, 4)
        source.write(5)  # a reader finds the same until the next cut
        for name in NAMES:
            source.writers[name].seal()
            source.lake.table(name).expire_snapshots(retain_max=1, retain_min=1)
        assert values(source.lake, *NAMES) == found
        assert record_cut("g", source.members(), "5") is not None
        assert values(source.lake, *NAMES) == {5}


def test_a_number_that_a_crash_left_in_one_table_is_no_cut_of_others(source, tmp_path) -> None:
    source.cut(1)
    source.write(2)
    plan = FaultPlan({2: DEATHS[0]}, counted=frozenset({"create"}))
    with pytest.raises(Died):
        record_cut("g", faulty(source.members(), plan), "2")
    source.write(3)
    later = record_cut("g", source.members()[1:], "3")  # a run without table a, which takes the same number
    assert later is not None and later.number == 2
    assert values(source.lake, "db.b", "db.c") == {3}
    assert values(source.lake, *NAMES) == {1}
    assert value(source.lake, "db.a", read_cut="newest") == 2
    with pytest.raises(NotFound, match=r"table db\.a has no cut 'g-2-"):
        value(source.lake, "db.a", read_cut=later.name)


def test_two_processes_do_not_record_one_number(source, monkeypatch) -> None:
    source.write(1)
    members = source.members()
    taken = cut_writer.CutRecords.create

    def late(records: cut_writer.CutRecords, cut: Cut) -> bool:
        monkeypatch.setattr(cut_writer.CutRecords, "create", taken)
        assert record_cut("g", members, "1") is not None
        return records.create(cut)

    monkeypatch.setattr(cut_writer.CutRecords, "create", late)
    assert record_cut("g", members, "1") is None
    assert values(source.lake, *NAMES) == {1}


def test_expiry_keeps_the_snapshots_of_recorded_cuts_only(source, monkeypatch) -> None:
    monkeypatch.setattr(cut_writer, "KEPT_CUTS", 3)
    names = [cut.name for number in range(1, 11) if (cut := source.cut(number)) is not None]
    for name in NAMES:
        source.lake.table(name).expire_snapshots(retain_max=1, retain_min=1)
    for number, name in enumerate(names, 1):
        if number < 8:
            with pytest.raises(NotFound, match=r"no cut 'g-\d-[0-9a-f]+'; it has 8 to 10"):
                value(source.lake, "db.a", read_cut=name)
            continue
        assert {value(source.lake, table, read_cut=name) for table in NAMES} == {number}
    assert source.lake.table("db.a").logical.store.earliest_snapshot_id() == 8


def test_a_cut_whose_consumer_was_deleted_says_so(source) -> None:
    source.cut(1)
    source.write(2, "db.b")
    source.writers["db.b"].seal()
    table = source.lake.table("db.b")
    table.logical.store.consumers.delete("cut-g")
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFound, match=r"snapshot 1 of table db\.b has expired.*newer cut"):
        values(source.lake, *NAMES)
    assert values(source.lake, "db.a", "db.c") == {1}


def test_a_forgotten_group_keeps_nothing(source) -> None:
    source.cut(1)
    for name in NAMES:
        forget_cuts(source.lake.table(name).logical, "g")
        forget_cuts(source.lake.table(name).logical, "g")
        assert source.lake.table(name).logical.store.consumers.list() == []
    with pytest.raises(NotFound, match=r"table db\.a has no cut"):
        source.lake.cut(NAMES)


def test_a_rollback_does_not_change_a_cut(source) -> None:
    source.cut(1)
    source.cut(2)
    first = source.lake.table("db.a").logical.store.earliest_snapshot_id()
    source.lake.table("db.a").rollback_to(snapshot_id=first)
    assert value(source.lake, "db.a") == 1
    assert values(source.lake, *NAMES) == {2}
    assert source.writers["db.a"].sealed() is None


def test_a_number_that_another_engine_uses_again_is_refused(source) -> None:
    source.cut(1)
    cut = source.cut(2)
    assert cut is not None
    table = source.lake.table("db.a")
    snapshots = Path(table.path) / "snapshot"
    newest = table.latest_snapshot()
    assert newest is not None
    for file in (f"snapshot-{newest.id}", "LATEST"):
        (snapshots / file).unlink(missing_ok=True)
    lake = connect(warehouse=source.lake.warehouse)
    lake.write(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())}), "db.a")
    with pytest.raises(NotFound, match=r"table db\.a was rolled back by another engine since cut g-2"):
        value(lake, "db.a", read_cut=cut.name)


def test_a_table_that_was_dropped_and_made_again_is_not_in_the_cut(source) -> None:
    cut = source.cut(1)
    assert cut is not None
    source.lake.drop_table("db.b")
    source.lake.create_table("db.b", {"id": "int", "v": "int"}, primary_key="id")
    with pytest.raises(NotFound, match=r"table db\.b has no cut"):
        source.lake.cut(NAMES)
    with pytest.raises(NotFound, match=r"table db\.b has no cut 'g-1"):
        value(source.lake, "db.b", read_cut=cut.name)
    assert values(source.lake, "db.a", "db.c") == {1}


def test_a_table_that_was_dropped_meanwhile_gets_no_files(source) -> None:
    source.write(1)
    members = source.members()
    source.lake.drop_table("db.b")
    with pytest.raises(TableReplaced, match=r"db\.b"):
        record_cut("g", members, "1")
    assert not Path(members[1].table.path).exists()


def test_a_renamed_table_and_new_columns(source) -> None:
    source.cut(1)
    source.lake.sql("ALTER TABLE db.a RENAME TO db.z")
    source.lake.sql("ALTER TABLE db.b ADD COLUMN more int")
    assert values(source.lake, "db.z", "db.b", "db.c") == {1}
    assert source.lake.table("db.b").scan(options={"read.cut": "newest"}).schema.names == ["id", "v"]


def test_a_table_that_joins_later_has_only_later_cuts(tmp_path) -> None:
    source = Source(tmp_path)
    source.names = NAMES[:2]
    first = source.cut(1)
    assert first is not None
    with pytest.raises(NotFound, match=r"table db\.c has no cut"):
        source.lake.cut(NAMES)
    source.names = NAMES
    source.write(1, "db.c")
    source.cut(2)
    assert values(source.lake, *NAMES) == {2}
    with pytest.raises(NotFound, match=r"table db\.c has no cut 'g-1"):
        value(source.lake, "db.c", read_cut=first.name)


def test_tables_of_two_groups_have_no_cut_in_common(source) -> None:
    source.names = NAMES[:1]
    source.cut(1)
    source.names, source.group = NAMES[1:], "h"
    source.cut(1)
    with pytest.raises(NotFound, match=r"no cut in common \(db\.a: g; db\.b: h\)"):
        source.lake.cut(["db.a", "db.b"])
    members = [CutTable(one.table, one.snapshot) for one in source.members()[:1]]
    source.names = NAMES[:1]
    record_cut("view", [*members, *source.members()], "1")  # as a view records itself and its sources
    assert source.lake.cut(["db.a", "db.b"]).name.startswith("view-1-")


@pytest.mark.parametrize("given", ["", "17", "g-x-abc", "g-1", "-1-abc", "../../g-1-abc", "g-99999999999999999999-abc"])
def test_what_is_no_name_of_a_cut_is_refused(source, given) -> None:
    source.cut(1)
    with pytest.raises(InvalidOption, match=r"is not a cut: write 'newest'|read\.cut"):
        value(source.lake, "db.a", read_cut=given)


def test_a_cut_does_not_go_with_other_points_in_time_changes_or_streams(source) -> None:
    source.cut(1)
    source.cut(2)
    table = source.lake.table("db.a")
    with pytest.raises(InvalidOption, match=r"'scan\.snapshot-id' and 'read\.cut' both name a point in time"):
        table.scan(snapshot_id=1, options={"read.cut": "newest"})
    with pytest.raises(InvalidOption, match=r"'read\.cut' is one moment"):
        table.scan(incremental_between=(1, 2), options={"read.cut": "newest"})
    with pytest.raises(InvalidOption, match=r"'read\.cut' is one moment, and a stream has no end"):
        list(table.stream_plan(options={"read.cut": "newest"}))
    with pytest.raises(InvalidOption, match=r"read\.cut"):
        source.lake.create_table("db.t", {"id": "int"}, options={"read.cut": "newest"})
    with pytest.raises(InvalidRequest, match="name the tables"):
        source.lake.cut([])


def test_a_branch_has_no_cuts(source) -> None:
    source.cut(1)
    source.lake.table("db.a").create_branch("dev")
    with pytest.raises(NotFound, match=r"branch 'dev' of table db\.a\$branch_dev has no cuts"):
        source.lake.cut(["db.a$branch_dev"])


def test_a_record_of_a_later_version_is_refused(source) -> None:
    cut = source.cut(1)
    assert cut is not None
    store = source.lake.table("db.a").logical.store
    cut_writer.CutRecords.of(store).create(dataclasses.replace(cut, number=2, version=2))
    with pytest.raises(UnsupportedFeature, match="a cut of version 2"):
        newest_cut([store])

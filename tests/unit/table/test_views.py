"""What a name and the options of a read mean: the past, changes, branches, streams of the files."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidOption, InvalidRequest, InvalidSchema, NotFound, UnsupportedFeature
from lakelog.table.system.history import duration_text
from lakelog.table.system.rows import packed

DATA = Path(__file__).parents[2] / "golden" / "data"


def golden(name: str, suffix: str = "") -> lakelog.Table:
    return lakelog.connect(warehouse=str(DATA / name)).table(f"g.{name}{suffix}")


def changes(table: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(table["_row_kind"].to_pylist(), table["id"].to_pylist(), strict=True))


def test_a_time_is_text_a_number_or_a_datetime() -> None:
    table = golden("pk_dedup")
    millis = [s["commit_time"] for s in golden("pk_dedup", "$snapshots").scan().to_arrow().to_pylist()][1]
    stamp = int(millis.timestamp() * 1000)
    second = table.scan(snapshot_id=2).to_arrow()
    assert table.scan(timestamp=stamp).to_arrow() == second
    assert table.scan(timestamp=millis).to_arrow() == second
    assert table.scan(timestamp=f"{millis.isoformat()}").to_arrow() == second
    assert table.scan(timestamp=dt.datetime.fromtimestamp(stamp / 1000, dt.UTC)).to_arrow() == second
    with pytest.raises(NotFound, match="or before; the oldest, 1, is of"):
        table.scan(timestamp=1)
    with pytest.raises(InvalidOption, match="'soon' is not a time"):
        table.scan(timestamp="soon")


def test_a_version_is_a_tag_or_a_snapshot_id() -> None:
    table = golden("branch_tag")
    assert table.scan(options={"scan.version": "t1"}).to_arrow() == table.scan(tag="t1").to_arrow()
    assert table.scan(options={"scan.version": "2"}).to_arrow() == table.scan(tag="t2").to_arrow()
    with pytest.raises(NotFound, match="no tag 't3'; it has: t1, t2"):
        table.scan(options={"scan.version": "t3"})
    with pytest.raises(NotFound, match="no snapshot with watermark 7"):
        table.scan(options={"scan.version": "watermark-7"})


def test_two_points_in_time_are_refused() -> None:
    table = golden("branch_tag")
    with pytest.raises(InvalidRequest, match="give one of"):
        table.scan(snapshot_id=1, tag="t1")
    with pytest.raises(InvalidOption, match=r"'scan\.snapshot-id' and 'scan\.tag-name' both"):
        table.scan(tag="t1", options={"scan.snapshot-id": "1"})


def test_columns_of_the_past_can_be_chosen_and_filtered() -> None:
    table = golden("evolution_pk")
    assert table.scan(["id", "b"], "b is not null", snapshot_id=1).to_arrow().column_names == ["id", "b"]
    with pytest.raises(InvalidSchema, match="has no column 'b'"):
        table.scan(["b"])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("auto", [("+I", 3), ("+I", 4), ("+I", 5), ("+U", 2), ("+U", 2), ("-D", 1), ("-D", 3)]),
        ("delta", [("+I", 3), ("+I", 4), ("+I", 5), ("+U", 2), ("+U", 2), ("-D", 1), ("-D", 3)]),
        ("diff", [("+I", 3), ("+I", 4), ("+I", 5), ("+U", 2)]),
        ("changelog", []),
    ],
)
def test_each_mode_emits_changes_in_its_form(mode: str, expected: list[tuple[str, int]]) -> None:
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": mode}
    assert changes(golden("pk_dedup").scan(options=options).to_arrow()) == expected


def test_the_audit_log_of_a_comparison_has_the_removed_rows() -> None:
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    found = golden("pk_dedup", "$audit_log").scan(["id"], "rowkind = '-D'", options=options).to_arrow()
    assert found.to_pylist() == [{"id": 1}]


def test_two_tags_are_compared_and_two_times_are_ids() -> None:
    tagged = golden("branch_tag")
    assert changes(tagged.scan(incremental_between=("t1", "t2")).to_arrow()) == [("+I", 2)]
    times = "0,99999999999999"
    whole = tagged.scan(options={"incremental-between-timestamp": times}).to_arrow()
    assert [kind for kind, _ in changes(whole)] == ["+I"] * 3


@pytest.mark.parametrize(
    ("between", "error", "message"),
    [
        (("t1", "nope"), NotFound, "give two snapshot ids or two tags; its tags are: t1, t2"),
        (("3", "1"), InvalidOption, "the end is before the start"),
        (("1", "9"), NotFound, "it has snapshots 1 to 3"),
    ],
)
def test_a_missing_range_names_the_existing_one(between: tuple[str, str], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        golden("branch_tag").scan(incremental_between=between).to_arrow()


def test_a_filter_on_the_kind_and_on_a_column_of_changes() -> None:
    scan = golden("pk_dedup").scan(["name"], "_row_kind = '+U' and id = 2 and score > 100", incremental_between=(1, 3))
    assert scan.to_arrow().to_pylist() == [{"name": None}]


def test_a_comparison_without_key_is_refused() -> None:
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    with pytest.raises(UnsupportedFeature, match="has none: use 'delta'"):
        golden("append_unaware").scan(options=options).to_arrow()


def test_a_stream_starts_at_the_requested_position() -> None:
    table = golden("pk_dedup")

    def plans(**options: str) -> list[tuple[int, int]]:
        given = {key.replace("_", "."): value for key, value in options.items()}
        return [(p.next, p.to_arrow().num_rows) for p in table.stream_plan(options=given)]

    assert plans() == [(4, 6)]
    assert plans(scan_mode="latest") == []
    assert plans(scan_mode="earliest") == [(2, 5), (3, 3), (4, 4)]
    assert [(p.next, p.to_arrow().num_rows) for p in table.stream_plan(options={"scan.snapshot-id": "2"})] == [
        (3, 3),
        (4, 4),
    ]
    full = {"scan.snapshot-id": "2", "scan.mode": "from-snapshot-full"}
    assert [(p.next, p.to_arrow().num_rows) for p in table.stream_plan(options=full)] == [(3, 5), (4, 4)]
    times = [
        int(s.timestamp() * 1000) for s in golden("pk_dedup", "$snapshots").scan().to_arrow()["commit_time"].to_pylist()
    ]
    since = {"scan.timestamp-millis": str(times[2])}
    assert [p.next for p in table.stream_plan(options=since)] == [4]


def test_a_full_state_before_a_changelog_omits_the_changes_of_the_changelog() -> None:
    (plan,) = golden("changelog_lookup").stream_plan()
    assert {f.level for split in plan.splits for f in split.files} == {5}


def test_a_stream_that_expiry_has_overtaken_says_so() -> None:
    with pytest.raises(NotFound, match=r"snapshot 1 of table g.overwrite_expire has expired.*'consumer-id'"):
        list(golden("overwrite_expire").stream_plan(from_snapshot=1))
    with pytest.raises(InvalidRequest, match="recreated or rolled back"):
        list(golden("pk_dedup").stream_plan(from_snapshot=9))


def test_a_stream_reads_on_from_a_changelog_that_outlived_its_snapshot(tmp_path: Path) -> None:
    shutil.copytree(DATA / "changelog_input", tmp_path / "w")
    path = tmp_path / "w" / "g.db" / "changelog_input"
    whole = [p.to_arrow() for p in golden("changelog_input").stream_plan(from_snapshot=1)]
    (path / "changelog").mkdir()
    (path / "snapshot" / "snapshot-1").rename(path / "changelog" / "changelog-1")
    (path / "snapshot" / "EARLIEST").write_text("2")
    table = lakelog.connect(warehouse=str(tmp_path / "w")).table("g.changelog_input")
    assert [p.to_arrow() for p in table.stream_plan(from_snapshot=1)] == whole
    assert [p.to_arrow() for p in table.stream_plan(options={"scan.mode": "earliest"})] == whole


def test_an_overwrite_is_read_only_when_asked_for(tmp_path: Path) -> None:
    shutil.copytree(DATA / "pk_dedup", tmp_path / "w")
    path = tmp_path / "w" / "g.db" / "pk_dedup" / "snapshot" / "snapshot-3"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "commitKind": "OVERWRITE"}))
    table = lakelog.connect(warehouse=str(tmp_path / "w")).table("g.pk_dedup")
    assert [p.next for p in table.stream_plan(from_snapshot=2)] == [3]
    asked = table.stream_plan(from_snapshot=2, options={"streaming-read-overwrite": "true"})
    assert [p.next for p in asked] == [3, 4]


def test_a_consumer_s_position_is_where_its_stream_goes_on(tmp_path: Path) -> None:
    shutil.copytree(DATA / "pk_dedup", tmp_path / "w")
    table = lakelog.connect(warehouse=str(tmp_path / "w")).table("g.pk_dedup")
    table.logical.store.consumers.record("me", 3)
    assert [p.next for p in table.stream_plan(options={"consumer-id": "me"})] == [4]
    anew = {"consumer-id": "me", "consumer.ignore-progress": "true", "scan.mode": "earliest"}
    assert [p.next for p in table.stream_plan(options=anew)] == [2, 3, 4]
    with pytest.raises(InvalidRequest, match="cannot be the name of a consumer"):
        table.logical.store.consumers.record("a\\b", 1)


def test_branches_have_their_own_snapshots_and_system_tables_are_not_written() -> None:
    branch = golden("branch_tag", "$branch_dev")
    assert branch.scan().to_arrow().num_rows == 2
    snapshots = golden("branch_tag", "$branch_dev$snapshots")
    assert snapshots.scan().to_arrow().num_rows == 2
    with pytest.raises(UnsupportedFeature, match=r"g\.branch_tag\$branch_dev\$snapshots is a system table"):
        snapshots.writer()


@pytest.mark.parametrize(
    ("suffix", "error", "message"),
    [
        ("$branch_x", NotFound, "no branch 'x'; it has: dev"),
        ("$snapshot", NotFound, "did you mean 'snapshots'"),
        ("$row_tracking", UnsupportedFeature, "'\\$row_tracking'"),
    ],
)
def test_a_name_that_is_not_there_names_the_nearest(suffix: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        golden("branch_tag", suffix)


def test_an_update_is_one_row_of_the_binlog() -> None:
    scan = golden("changelog_lookup", "$binlog").scan(["rowkind", "v"], incremental_between=(2, 4))
    assert sorted(scan.to_arrow().to_pylist(), key=str) == [
        {"rowkind": "+I", "v": ["c"]},
        {"rowkind": "+U", "v": ["a", "a2"]},
        {"rowkind": "-D", "v": ["b"]},
    ]


def test_a_lone_before_image_stays_alone() -> None:
    rows = pa.table({"rowkind": ["-U", "+I", "-U", "+U"], "v": [1, 2, 3, 4]})
    assert packed(rows, True).to_pydict() == {"rowkind": ["-U", "+I", "+U"], "v": [[1], [2], [3, 4]]}
    assert packed(rows, False)["v"].to_pylist() == [[1], [2], [3], [4]]


@pytest.mark.parametrize(("seconds", "text"), [(0, "PT0S"), (90, "PT1M30S"), (86400, "PT24H"), (0.25, "PT0.25S")])
def test_a_duration_is_printed_as_java_does(seconds: float, text: str) -> None:
    assert duration_text(dt.timedelta(seconds=seconds)) == text


def test_a_tag_with_an_end_shows_it(tmp_path: Path) -> None:
    shutil.copytree(DATA / "branch_tag", tmp_path / "w")
    tags = tmp_path / "w" / "g.db" / "branch_tag" / "tag"
    plain = orjson.loads((tags / "tag-t1").read_bytes())
    (tags / "tag-t9").write_bytes(orjson.dumps({**plain, "tagCreateTime": [2024, 2, 3, 4, 5], "tagTimeRetained": 60.0}))
    table = lakelog.connect(warehouse=str(tmp_path / "w")).table("g.branch_tag$tags")
    (found,) = table.scan(["create_time", "time_retained"], "tag_name = 't9'").to_arrow().to_pylist()
    assert found == {"create_time": dt.datetime(2024, 2, 3, 4, 5), "time_retained": "PT1M"}

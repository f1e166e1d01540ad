from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound
from lakelog.filestore.gc.expiry import Retention

KEEP_ONE = Retention(1, 1, timedelta(hours=1), 50)


def test_a_tag_keeps_its_snapshot_from_expiry(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.store.tags.create("first")
    table.insert((0, 2, "b", 1.0))
    table.store.expire_snapshots(KEEP_ONE)
    tag = table.store.tags.get("first")
    assert tag.snapshot.id == 1
    assert [e.file.row_count for e in table.store.live_entries(tag.snapshot)] == [1]
    assert table.store.tags.create("again", 1).snapshot == tag.snapshot
    table.store.tags.delete("first")
    assert len(table.store.live_entries(table.store.tags.get("again").snapshot)) == 1


def test_names(make_table) -> None:
    table = make_table()
    with pytest.raises(NotFound, match="no snapshot yet"):
        table.store.tags.create("t")
    table.insert((0, 1, "a", 1.0))
    table.insert((0, 2, "a", 1.0))
    table.store.tags.create("t", 1)
    assert table.store.tags.create("t", 1).snapshot.id == 1  # the same again is done
    assert table.store.tags.create("t", if_not_exists=True).snapshot.id == 1
    with pytest.raises(AlreadyExists, match="points to .*snapshot 1"):
        table.store.tags.create("t", 2)
    assert table.store.tags.rename("t", "first").snapshot.id == 1
    with pytest.raises(NotFound, match="did you mean 'first'"):
        table.store.tags.get("firsts")
    assert table.store.tags.replace("first").snapshot.id == 2
    for bad in ("", "12", "a/b"):
        with pytest.raises(InvalidRequest):
            table.store.tags.create(bad)
    with pytest.raises(NotFound, match="snapshots 1 to 2"):
        table.store.tags.create("x", 9)
    assert [tag.name for tag in table.store.tags.list()] == ["first"]


def test_only_tags_with_an_end_expire_unless_asked(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.store.tags.create("short", retained=timedelta(seconds=1))
    table.store.tags.create("long", retained=timedelta(days=9))
    table.store.tags.create("ever")
    later = datetime.now() + timedelta(days=1)
    assert [t.name for t in table.store.tags.expire(now=later)] == ["short"]
    assert [t.name for t in table.store.tags.expire(now=later, older_than=later)] == ["ever"]
    assert [t.name for t in table.store.tags.list()] == ["long"]


def test_a_tag_of_a_snapshot_that_goes_while_it_is_made_is_taken_back(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    table.insert((0, 2, "a", 1.0))
    io = table.store.io.inner
    create = io.create

    def slow(path: str, data: bytes) -> bool:
        io.delete(table.store.paths.snapshot(1))
        return create(path, data)

    io.create = slow
    with pytest.raises(NotFound, match="no snapshot 1"):
        table.store.tags.create("t", 1)
    assert list(table.store.tags.list()) == []

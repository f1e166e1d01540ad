from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from lakelog.errors import Corrupt, InvalidRequest, NotFound


def test_positions(make_table) -> None:
    store = make_table().store
    assert store.consumers.smallest() is None
    store.consumers.record("b", 7)
    store.consumers.record("a", 9)
    assert [(c.name, c.next_snapshot) for c in store.consumers.list()] == [("a", 9), ("b", 7)]
    assert (store.consumers.smallest(), store.consumers.position("a"), store.consumers.position("c")) == (7, 9, None)
    assert orjson.loads(store.io.read(store.paths.consumer("a"))) == {"nextSnapshot": 9}
    assert store.consumers.expire(timedelta(hours=1)) == []
    assert len(store.consumers.expire(timedelta(seconds=-1))) == 2
    with pytest.raises(NotFound, match="it has: none"):
        store.consumers.delete("a")


def test_invalid_consumers(make_table) -> None:
    store = make_table().store
    with pytest.raises(InvalidRequest):
        store.consumers.record("a/b", 1)
    with pytest.raises(InvalidRequest):
        store.consumers.record("a", 0)
    store.io.write(store.paths.consumer("bad"), b"{}")
    with pytest.raises(Corrupt, match="consumer-bad"):
        store.consumers.list()

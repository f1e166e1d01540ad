"""The buckets of keys of a table with dynamic buckets: one for ever, filled alike, limited."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import DEPTH
from lakelog.errors import Corrupt, InvalidRequest
from lakelog.filestore.write.bucket_assigner import BucketAssigner, HashIndex
from lakelog.options.option import Options

EMPTY = b"\x00" * 12
HASHES = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20), max_size=60)


def hashes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@settings(deadline=None, max_examples=DEPTH.cases(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(HASHES, max_size=6),
    restarts=st.sets(st.integers(0, 5)),
    target=st.integers(1, 20),
    initial=st.integers(1, 4),
    most=st.sampled_from([-1, 1, 3]),
)
def test_a_key_is_in_one_bucket_for_ever(make_table, batches, restarts, target, initial, most) -> None:
    options = Options(
        {
            "dynamic-bucket.target-row-num": str(target),
            "dynamic-bucket.initial-buckets": str(initial),
            "dynamic-bucket.max-buckets": str(most),
        }
    )
    index = HashIndex(make_table(path=f"/{uuid.uuid4()}").store.manifests)
    known: dict[int, np.ndarray] = {}
    assigner = BucketAssigner.of(known, options)
    model: dict[int, int] = {}
    for at, batch in enumerate(batches):
        found = assigner.assign(hashes(*batch))
        for value, bucket in zip(batch, found.tolist(), strict=True):
            assert model.setdefault(value, bucket) == bucket
        if at in restarts:
            entries = index.write(EMPTY, known, assigner.added)
            known |= index.read(entries)
            assigner = BucketAssigner.of(known, options)
    sizes = np.unique(list(model.values()), return_counts=True)
    assert sum(assigner.counts.values()) == len(model)
    assert {b: n for b, n in assigner.counts.items() if n} == dict(zip(*(s.tolist() for s in sizes), strict=True))
    if most < 0:
        assert max(sizes[1], default=0) <= target
        assert len(sizes[0]) <= max(initial, -(-len(model) // target))
    else:
        assert len(sizes[0]) <= most


def test_new_keys_fill_the_buckets_that_are_not_full() -> None:
    assigner = BucketAssigner(target=3, initial=2)
    assert sorted(assigner.assign(hashes(1, 2, 3, 4))) == [0, 0, 1, 1]
    assert sorted(assigner.assign(hashes(5, 6, 7, 8))) == [0, 1, 2, 2]
    assert assigner.counts == {0: 3, 1: 3, 2: 2}
    assert assigner.assign(hashes(1, 1, 1)).tolist() == [assigner.assign(hashes(1))[0]] * 3


def test_more_buckets_than_other_engines_can_count_are_refused() -> None:
    assigner = BucketAssigner(target=1, counts=dict.fromkeys(range(1 << 15), 1))
    with pytest.raises(InvalidRequest, match="more than 32768 buckets"):
        assigner.assign(hashes(1))


def test_an_index_file_is_big_endian_and_whole(make_table) -> None:
    store = make_table().store
    index = HashIndex(store.manifests)
    (entry,) = index.write(EMPTY, {0: hashes(1)}, {0: hashes(-2)})
    path = store.paths.index_file(entry.file_name)
    assert store.io.read(path) == b"\x00\x00\x00\x01\xff\xff\xff\xfe"
    assert (entry.bucket, entry.index_type, entry.file_size, entry.row_count) == (0, "HASH", 8, 2)
    store.io.write(path, b"\x00" * 7)
    with pytest.raises(Corrupt, match="7 bytes for 2 keys"):
        index.read([entry])
    index.delete([entry])
    assert not store.io.exists(path)

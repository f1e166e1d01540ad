"""Numbered files: one promise for all of their users, and the names that they have on disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakelog.io.journal import Journal
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.state import keyed_state
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.published_links import PublishedLinks


def decided(io: FileIO) -> DecidedEpochs:
    return DecidedEpochs(io, "memory:/t", True, lambda: io.hold("memory:/t"))


USERS: dict[str, Callable[[FileIO], Journal]] = {
    "lakelog/chain/{:019}": lambda io: decided(io)._chain,
    "lakelog/staged/w/epoch-{:019}": lambda io: decided(io)._lane("w"),
    "lakelog/published/id/{:019}": lambda io: PublishedLinks(io, "memory:/t/lakelog/published/id")._journal,
    "lakelog/normalize/at-{:019}": lambda io: keyed_state._saves(io, "memory:/t/lakelog/normalize"),
    "log/segments/{:020}": lambda io: Journal(io, "memory:/t/log/segments", digits=20),
}


@pytest.fixture(params=USERS)
def names(request: pytest.FixtureRequest) -> str:
    return f"memory:/t/{request.param}"


@pytest.fixture
def journal(names: str) -> Journal:
    return USERS[names.removeprefix("memory:/t/")](MemoryFileIO(new_uuid()))


@pytest.mark.parametrize("newest", range(10))
def test_the_end_is_found_from_each_number_before_it(journal: Journal, names: str, newest: int) -> None:
    for number in range(newest + 1):
        assert journal.create(number, b"%d" % number)
        assert journal.path(number) == names.format(number)
    assert not journal.create(newest, b"another")
    assert [journal.end(number) for number in range(newest + 1)] == [newest] * (newest + 1)
    assert journal.read(newest) == b"%d" % newest and journal.read(newest + 1) is None
    assert journal.has(newest) and not journal.has(newest + 1)


def test_names_that_are_no_numbers_are_neither_listed_nor_deleted(journal: Journal) -> None:
    foreign = [
        f"{journal.directory}/{name}" for name in ("²", "lease", f".{journal.prefix}0.tmp", f"{journal.prefix}7")
    ]
    for path in foreign:
        journal.io.write(path, b"")
    for number in (12, 2, 10**18):
        journal.create(number, b"")
    assert [*journal.files()] == [2, 12, 10**18]
    journal.delete_below(12)
    assert [*journal.files()] == [12, 10**18]
    assert all(journal.io.exists(path) for path in foreign)

"""The cycle collector is held while any block runs, and on or off afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from lakelog.io.collector import collector_paused


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_in_the_block_and_on_after_it_even_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("x")
    assert gc.isenabled()


def test_it_stays_off_if_it_was_off_before() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_the_last_of_several_threads_lets_it_go() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with collector_paused():
            entered.set()
            assert leave.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(120)
    with collector_paused():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join(120)
    assert gc.isenabled()

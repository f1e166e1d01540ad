"""A fork loses the threads of polars' pool, and a writer in the child would wait for them for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.errors import InvalidRequest
from lakelog.io import machine


@pytest.mark.parametrize(
    ("threads", "refused"),
    [
        (["python", "jemalloc_bg_thd", "polars-ooc-clea"], False),  # as after an import of polars
        (["python", "polars-ooc-clea", "polars-0", "polars-1"], True),
    ],
)
def test_only_threads_of_the_pool_count(monkeypatch, tmp_path: Path, threads: list[str], refused: bool) -> None:
    for number, name in enumerate(threads):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    monkeypatch.setattr(machine, "_THREADS", tmp_path)
    monkeypatch.setattr(machine._State, "is_broken", False)
    monkeypatch.setattr(machine._State, "has_threads", False)
    machine._before_fork()
    machine._in_child()
    if refused:
        with pytest.raises(InvalidRequest, match="was forked"):
            machine.check_not_forked()
    else:
        machine.check_not_forked()

"""CPU time by part: each second of a process tree is in one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_BURN = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))


def test_a_child_counts_as_worker_and_a_broker_by_its_main_class_also_after_their_end() -> None:
    from cpu_account import CpuAccount

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with CpuAccount(os.getpid()) as account:
        before = account.take()
        children = [subprocess.Popen([sys.executable, "-c", _BURN, name], **pipes) for name in ("w", "kafka.Kafka")]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == "done\n"
            running = account.take()
        finally:
            for child in children:
                child.communicate()
        ended = account.take()
    for after in (running, ended):
        assert after["python workers"] - before.get("python workers", 0.0) >= 0.25
        assert after["broker"] - before.get("broker", 0.0) >= 0.25
        assert after["driver"] >= before["driver"] > 0


@pytest.mark.parametrize(
    ("thread", "part"),
    [
        ("C2 CompilerThre", "jvm compiler"),
        ("GC Thread#1", "jvm gc"),
        ("Executor task l", "jvm tasks"),
        ("stream executio", "jvm stream thread"),
        ("dispatcher-even", None),
    ],
)
def test_threads_of_the_jvm_are_known_by_the_names_that_linux_keeps(thread: str, part: str | None) -> None:
    from cpu_account import part_of

    assert part_of(thread) == part


def test_an_account_is_given_by_row_and_in_sum() -> None:
    from cpu_account import per_row

    found = per_row({"driver": 1.0, "broker": 2.0}, {"driver": 2.0, "broker": 1.5, "jvm gc": 0.5}, 1_000_000)
    assert found == {"broker": 0.0, "driver": 1.0, "jvm gc": 0.5, "all": 1.5}

"""A minute of ``make chaos``: everything is killed at least once beside a double write, and every row is counted.

Of the writing job the driver or all of it is killed, both if the run is whole. Many writers are killed and stopped, and
one order explains what they were answered.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.crowd import ACTIONS, Crowd
from chaos.kills import VICTIMS
from chaos.run import Chaos
from chaos.servers import ServerBroken
from chaos.views import Views
from depth import Depth

TRIES = 3
"""More than one for a server that has lost its own data, so that the run says nothing."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("log", "kind"), [("kafka", "changes"), pytest.param("pulsar", "append", marks=pytest.mark.pulsar)]
)
def test_no_row_is_lost_or_doubled_when_everything_is_killed(tmp_path: Path, log: str, kind: str, depth: Depth) -> None:
    said: list[str] = []
    found = None
    victims = [v for v in VICTIMS if depth.is_whole or v != ("driver", "job")[depth.seed % 2]]
    for seed in range(depth.seed, depth.seed + TRIES):
        chaos = Chaos(
            directory=tmp_path / str(seed),
            kind=kind,
            log=log,
            seconds=40,
            rate=2_000,
            keys=5_000,
            seed=seed,
            every_s=20,
            victims=tuple(victims),
            report=said.append,
        )
        try:
            found = chaos.run()
            break
        except ServerBroken as why:
            said.append(str(why))
    assert found is not None, "\n".join(said)
    assert found["equal"], "\n".join(said)
    assert set(found["kills"]) == set(victims)
    assert found["redundant"] == found["compensated"], "rows that were written twice were taken back"
    assert not depth.is_whole or found["redundant"] > 0
    assert found["net"] == found["sent"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("log", "kind"), [("embedded", "changes"), ("kafka", "append")])
def test_one_order_explains_all_answers_when_writers_are_killed_and_stopped(
    tmp_path: Path, log: str, kind: str, depth: Depth
) -> None:
    said: list[str] = []
    crowd = Crowd(
        directory=tmp_path,
        log=log,
        kind=kind,
        seconds=60 if depth.is_whole else 25,
        writers=3,
        keys=8,
        seed=depth.seed,
        every_s=1,
        server_every_s=20,
        report=said.append,
    )
    found = crowd.run()
    assert found["equal"], "\n".join(said)
    assert not depth.is_whole or set(ACTIONS) <= set(found["done"]), "each of them was done"
    assert found["ok"] > 0


@pytest.mark.timeout(900)
def test_views_are_their_queries_when_two_processes_that_refresh_them_are_killed_and_stopped(
    tmp_path: Path, depth: Depth
) -> None:
    said: list[str] = []
    seconds = 60 if depth.is_whole else 25
    found = Views(directory=tmp_path, seconds=seconds, seed=depth.seed, every_s=2, report=said.append).run()
    assert found["equal"], "\n".join(said)
    assert sum(found["done"].values()) > 0
    assert found["checked"] > 0
    assert found["refreshed"] > 0

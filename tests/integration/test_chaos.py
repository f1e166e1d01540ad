"""A minute of ``make chaos``: everything is killed at least once beside a double write, and every row is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.kills import VICTIMS
from chaos.run import Chaos


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("log", "kind"), [("kafka", "changes"), pytest.param("pulsar", "append", marks=pytest.mark.pulsar)]
)
def test_no_row_is_lost_or_doubled_when_everything_is_killed(tmp_path: Path, log: str, kind: str) -> None:
    said: list[str] = []
    chaos = Chaos(
        directory=tmp_path,
        kind=kind,
        log=log,
        seconds=40,
        rate=2_000,
        keys=5_000,
        seed=11,
        every_s=20,
        victims=tuple(VICTIMS),
        report=said.append,
    )
    found = chaos.run()
    assert found["equal"], "\n".join(said)
    assert set(found["kills"]) == set(VICTIMS)
    assert found["redundant"] == found["compensated"] > 0, "rows were written twice, and taken back"
    assert found["net"] == found["sent"]

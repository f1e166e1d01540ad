"""Hosts lose power, processes are killed and connections are cut beside a double write: every row is there, once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from depth import Depth
from hosts.programs import found_by
from hosts.run import VICTIMS

pytestmark = pytest.mark.timeout(2400)


@pytest.mark.parametrize(
    ("log", "kind"), [("kafka", "changes"), ("files", "append"), ("files", "changes"), ("kafka", "upserts")]
)
def test_no_row_is_lost_or_doubled_when_hosts_and_connections_fail(
    tmp_path: Path, log: str, kind: str, depth: Depth
) -> None:
    victims = [victim for victim in VICTIMS if victim != "broker" or log == "kafka"]
    effort = ["--minutes", "3", "--every", "60", "--cut", "60"]
    if not depth.is_whole:
        victims = random.Random(depth.seed).sample(victims, 2)
        effort = ["--minutes", "0.2", "--every", "10", "--cut", "5", "--rate", "200", "--workers", "1", "--no-copy"]
    found = found_by(
        tmp_path,
        "chaos",
        *effort,
        "--log",
        log,
        "--kind",
        kind,
        "--seed",
        str(depth.seed),
        "--victims",
        ",".join(victims),
    )
    assert found["equal"], found["said"]
    assert (found["lost"], found["extra"]) == (0, 0)
    assert set(found["kills"]) == set(victims)
    assert found["redundant"] == found["compensated"], "rows that were written twice were taken back"
    assert found["net"] == found["sent"]

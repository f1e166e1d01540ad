"""Writers of the same keys on hosts whose clocks differ by an hour, which lose power and connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from depth import Depth
from hosts.programs import found_by

pytestmark = pytest.mark.timeout(2400)
ACTIONS = {"kill", "host without power", "host without network"}


@pytest.mark.parametrize(
    ("storage", "log", "kind"), [("s3", "files", "changes"), ("s3", "kafka", "append"), ("hdfs", "files", "changes")]
)
def test_one_order_explains_all_answers_of_hosts_whose_clocks_differ(
    tmp_path: Path, storage: str, log: str, kind: str, depth: Depth
) -> None:
    effort = ["--minutes", "3"] if depth.is_whole else ["--minutes", "0.4", "--every", "2", "--writers", "2"]
    what = ["--storage", storage, "--log", log, "--kind", kind, "--seed", str(depth.seed), "--ahead", "3600"]
    found = found_by(tmp_path, "crowd", *effort, *what)
    assert found["equal"], found["said"]
    assert found["ok"] > 0
    assert not depth.is_whole or set(found["done"]) >= ACTIONS

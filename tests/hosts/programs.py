"""Calls ``python -m hosts`` from a test: what runs on hosts needs a process that is in a network of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hosts.network import ROOT, check_machine


def found_by(directory: Path, *arguments: str) -> dict[str, Any]:
    """The results of a run. Raises NoHosts where the machine cannot make hosts; never leaves the test out."""
    check_machine()
    results = directory / "results.json"
    command = [sys.executable, "-m", "hosts", *arguments, "--directory", str(directory / "hosts"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [*command, str(results)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    said = f"{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    assert results.exists(), said
    found: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    found["said"] = said
    return found

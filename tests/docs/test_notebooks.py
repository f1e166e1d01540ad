"""The notebooks of the examples run and show what they print; a drawn share runs again in the same directory."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from depth import Depth
from secrets_in_files import leaked

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_notebook_runs_and_shows_what_it_prints(notebook: Path, tmp_path: Path, depth: Depth) -> None:
    again = depth.is_whole or depth.keeps(f"again {notebook.name}", 0, 1, Fraction(1, 5))
    for _ in range(1 + again):
        command = [sys.executable, str(ROOT / "scripts" / "notebooks.py"), str(notebook)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert leaked(tmp_path, notebook.read_text(encoding="utf-8")) == []


def test_the_four_notebooks_are_whole() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4
        assert notebook["cells"][0]["source"][0].startswith("# ")

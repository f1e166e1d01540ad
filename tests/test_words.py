"""Texts for users, and names, are written in the words of the field."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "check_words.py"

PAGE = """# A page

The `told` option is code, and so is this block:

```python
told = "gone"
```

A reader looks up keys.
{sentence}
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that the script prints about pages of a checkout with faults, below a directory of its own."""
    root = tmp_path_factory.mktemp("checkout")
    texts = {
        "docs/guide/good.md": PAGE.format(sentence="The optimizer marks the epoch."),
        "docs/guide/bad.md": PAGE.format(sentence="The writer is told of it."),
        "src/lakelog/options/one.py": 'it = Option("told", str, None, "What nobody\\n reads.", aliases=("told",))\n',
        "src/lakelog/cli/two.py": '@click.command()\ndef run() -> None:\n    """Look at gone.\n\n    More."""\n',
        "src/lakelog/three.py": 'it = 1\nraise NotFound(\n    f"{it} rows are "\n    f"gone, too: {gone!r}"\n)\n',
        "src/lakelog/four.py": 'it = "gone"\ncursor.fail(f"{it} begins anew")\n',
        "src/lakelog/five.py": '"""Told."""\nit = LogProblem("it does not tell its age", "wait")\n',
        "src/lakelog/six.py": 'it = replace(run, detail=f"{it} is told later")\nfacts["kept"] = "for ever"\n',
        "src/lakelog/told_rows.py": 'def look(figures_of: int, looked_ms: int) -> None:\n    """Gone."""\n',
        "src/lakelog/service/dashboard/templates/a.html": '<p title="gone">{{ told }} <b>Rows</b> are gone</p>\n',
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ("docs/guide/bad.md:10", "told"),
        ("src/lakelog/options/one.py:1", "nobody"),
        ("src/lakelog/cli/two.py:3", "Look"),
        ("src/lakelog/cli/two.py:3", "gone"),
        ("src/lakelog/service/dashboard/templates/a.html:1", "gone"),
        ("src/lakelog/three.py:4", "gone"),
        ("src/lakelog/three.py:4", "too"),
        ("src/lakelog/four.py:2", "anew"),
        ("src/lakelog/five.py:2", "tell"),
        ("src/lakelog/six.py:1", "told"),
        ("src/lakelog/six.py:2", "for ever"),
        ("src/lakelog/told_rows.py:1", "told_rows"),
        ("src/lakelog/told_rows.py:1", "look"),
        ("src/lakelog/told_rows.py:1", "figures_of"),
    ],
)
def test_a_banned_word_is_reported_with_its_replacement(reported: list[str], place: str, word: str) -> None:
    found = [line for line in reported if line.startswith(f"{place}: {word} → ")]
    assert len(found) == 1, reported
    assert found[0].rpartition(" → ")[2].strip()


def test_code_names_and_other_words_are_not_reported(reported: list[str]) -> None:
    assert len(reported) == 14

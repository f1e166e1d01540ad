"""Texts for users, and names, are written in the words of the field."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "check_words.py"

PAGE = """# A page

The `told` option is code, and so is this block:

```python
told = "gone"
```

A reader looks up keys.
{sentence}
"""


TEXTS = {
    "docs/guide/good.md": (PAGE.format(sentence="The optimizer marks the epoch."), []),
    "docs/guide/bad.md": (PAGE.format(sentence="The writer is told of it."), ["10: told"]),
    "src/lakelog/options/one.py": ('it = Option("told", str, None, "What nobody\\n reads.")\n', ["1: nobody"]),
    "src/lakelog/cli/two.py": ('@click.command()\ndef run():\n    """Look at gone."""\n', ["3: Look", "3: gone"]),
    "src/lakelog/three.py": ('raise NotFound(\n    f"{it} rows are "\n    f"gone: {gone!r}"\n)\n', ["3: gone"]),
    "src/lakelog/told_rows.py": ('def look(a: int) -> None:\n    """Gone."""\n', ["1: told_rows", "1: look"]),
    "src/lakelog/service/dashboard/templates/a.html": (
        '<p title="gone">{{ told }} <b>Rows</b> are gone</p>\n',
        ["1: gone"],
    ),
}


def test_a_banned_word_is_reported_with_its_replacement_and_code_is_not(tmp_path: Path) -> None:
    for name, (text, _) in TEXTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    reported = [line.partition(" → ") for line in done.stderr.splitlines()]
    assert sorted(line for line, _, _ in reported) == sorted(f"{n}:{r}" for n, (_, rs) in TEXTS.items() for r in rs)
    assert all(replacement.strip() for _, _, replacement in reported)

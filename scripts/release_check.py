"""Checks what a release would upload: ``make release-check``.

1. Build wheel and sdist twice, with the time of the newest commit, and compare their bytes.
2. Check the metadata and the README with twine.
3. Install the wheel without its dependencies in a new environment, and compare its version.
4. Write the list of components (SBOM) in the format CycloneDX 1.5: lakelog and the dependencies of the wheel, with the
   versions of this environment.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"


def run(*command: str, **variables: str) -> str:
    """The output of a command. Raises SystemExit with it if the command fails."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def build(directory: str, epoch: str) -> dict[str, str]:
    """Builds both files; their names and hashes."""
    run(sys.executable, "-m", "hatchling", "build", "-d", directory, SOURCE_DATE_EPOCH=epoch)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(Path(directory).iterdir())}


def components(requirements: list[str]) -> list[dict[str, str]]:
    """The dependencies without extras, and theirs, as components."""
    out: dict[str, dict[str, str]] = {}
    waiting = [text for text in requirements if "extra ==" not in text]
    while waiting:
        name = re.split(r"[^A-Za-z0-9._-]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in out:
            continue
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # for another platform or Python
            continue
        out[name] = {
            "type": "library",
            "name": name,
            "version": found.version,
            "purl": f"pkg:pypi/{name}@{found.version}",
        }
        waiting += [text for text in found.requires or [] if "extra ==" not in text]
    return [out[name] for name in sorted(out)]


def main() -> None:
    """All steps; the last line says what is in ``dist``."""
    epoch = run("git", "log", "-1", "--format=%ct")
    DIST.mkdir(exist_ok=True)
    for file in DIST.iterdir():
        file.unlink()
    with tempfile.TemporaryDirectory() as again:
        first, second = build(str(DIST), epoch), build(again, epoch)
    if first != second:
        raise SystemExit(f"two builds of one commit differ: {first} and {second}")
    run(sys.executable, "-m", "twine", "check", "--strict", *(str(DIST / name) for name in first))
    version = run(sys.executable, "-c", "import lakelog; print(lakelog.__version__)")
    (wheel,) = DIST.glob(f"lakelog-{version}-*.whl")
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "zipfile", "-e", str(wheel), place)
        code = "import lakelog; print(lakelog.__file__, lakelog.__version__)"
        answer = run(sys.executable, "-c", code, PYTHONPATH=place)
        if not answer.startswith(place) or not answer.endswith(version):
            raise SystemExit(f"the wheel has another version: {answer}")
        (metadata,) = importlib.metadata.distributions(name="lakelog", path=[place])
        listed = components(list(metadata.requires or []))
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "component": {
                "type": "library", "name": "lakelog", "version": version, "purl": f"pkg:pypi/lakelog@{version}",
            },
        },
        "components": listed,
    }  # fmt: skip
    (DIST / "lakelog.cdx.json").write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"lakelog {version}: {', '.join(first)}, equal in two builds; {len(listed)} components\n")


if __name__ == "__main__":
    main()

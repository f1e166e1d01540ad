"""The version before this one: built from its commit into a wheel, and installed in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

OLD_VERSION: Final = "0.1.0"
OLD_COMMIT: Final = "27c5b46c5e6c43902c73c9df09d4980bdc57c4a1"
"""The last commit of 0.1.0: the next one begins the list of changes after it. A tag ``v0.1.0`` will name it."""
ROOT: Final = Path(__file__).parents[2]
JOB: Final = Path(__file__).parent / "version_job.py"
TIMEOUT_S: Final = 120


class Refused(Exception):
    """A version has refused a command by an error of lakelog."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


def old_python() -> str:
    """The Python of an environment with the old wheel in front of this environment's dependencies; built once."""
    environment = ROOT / "build" / "versions" / OLD_COMMIT[:12]
    python = environment / "bin" / "python"
    ready = environment / "ready"
    if ready.exists():
        return str(python)
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{OLD_COMMIT}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    if known.returncode:
        pytest.fail(
            f"commit {OLD_COMMIT[:12]} of lakelog {OLD_VERSION} is not in this clone, and its wheel cannot be built: "
            "fetch the whole history (git fetch --unshallow)"
        )
    source = environment / "source"
    source.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", OLD_COMMIT], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(source)], input=archive.stdout, check=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(environment / "dist")], source)
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], environment)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (wheel,) = (environment / "dist").glob("lakelog-*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    ready.touch()
    return str(python)


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


@dataclass
class Version:
    """A process of one version, and the warehouse that it works on."""

    process: subprocess.Popen[str]
    version: str
    warehouse: str = ""

    @staticmethod
    def start(python: str) -> Version:
        """Starts it, without Java: neither needs it here."""
        variables = {**os.environ, "JAVA_HOME": "/nonexistent"}
        variables.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [python, str(JOB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=variables, cwd=ROOT / "build",
        )  # fmt: skip
        assert process.stdout is not None
        hello = json.loads(process.stdout.readline())
        return Version(process, hello["ok"])

    def __call__(self, command: str, *arguments: Any, **options: Any) -> Any:
        """The answer to a command. Raises Refused, and ValueError or BrokenPipeError if the process is killed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([self.warehouse, command, arguments, options]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["text"])
        return answer["ok"]

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

"""The package: what an index shows of it, what is in it, and the first hour in an environment of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/lakelog/blob/main"
_FIRST_HOUR = """\
import lakelog, polars as pl
lake = lakelog.connect("warehouse")
lake.write(pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}), "db.t", create=True)
lake.sql("describe db.t").show()
print(lake.table("db.t").scan(filter=[("id", ">", 1)]).to_polars().rows(), lakelog.__file__)
"""


def built(target: Path, home: str) -> tuple[Path, Path]:
    """The sdist and the wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "LAKELOG_HOME": home}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return next(target.glob("*.tar.gz")), next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"), HOME)


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_accepts_the_files(files: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_has_its_licence_its_types_and_the_source_that_pyspark_finds(files: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(files[1]) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = message_from_string(wheel.read(metadata).decode())
    ends = ("licenses/LICENSE", "licenses/NOTICE", "lakelog/py.typed", "pyspark_lakelog/__init__.py")
    assert [end for end in ends if not any(name.endswith(end) for name in names)] == []
    assert [name for name in names if "test" in name.split("/")[0]] == []
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(told.get_all("Classifier") or ())
    assert f"Source, {HOME.partition('/blob/')[0]}" in (told.get_all("Project-URL") or ())
    required = [line for line in told.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert not any(line.startswith("pyspark") for line in required)


@pytest.mark.parametrize("home", [HOME, None])
def test_no_link_of_the_page_is_relative(hook, home: str | None) -> None:
    page = hook.readme_of((ROOT / "README.md").read_text(encoding="utf-8"), home)
    links = re.findall(r"\]\(([^)]+)\)", page) + re.findall(r"(?:src|srcset|href)=[\"']([^\"']+)", page)
    assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []
    assert ("docs/images" in page) == (home is not None)
    assert "[quickstart](" in page if home else "| quickstart |" in page


@pytest.mark.slow
def test_the_first_hour_runs_in_an_environment_of_its_own(files: tuple[Path, Path], tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    own = next((tmp_path / "env").glob("lib/python*/site-packages"))
    with zipfile.ZipFile(files[1]) as wheel:
        wheel.extractall(own)  # what pip does with a wheel of pure Python
    # its dependencies are those of the tests, without what is installed there for editing
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")}
    command = [str(tmp_path / "env" / "bin" / "python"), "-c", _FIRST_HOUR]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"[(2, 'b')] {own / 'lakelog' / '__init__.py'}", done.stderr

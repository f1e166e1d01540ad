"""The house rules that a program can check (CONTRIBUTING.md); imports are checked by import-linter."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lakelog
from lakelog import errors
from lakelog.options.parts import CATALOGS, FILE_FORMATS, LOCKS, LOG_FORMATS, LOG_SYSTEMS, MERGE_ENGINES
from lakelog.options.registry import Registry
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.procedure import Procedure
from lakelog.sql.runtime.statement import ParsedStatement
from lakelog.table.read.base import TableScan

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lakelog"
FOLDERS = {".ci", "benchmarks", "deploy", "docs", "examples", "rfcs", "scripts", "src", "tests"}
PARTS = {"checks", "engines", "formats", "kinds", "locks"}
"""Names of the folders in which every file has an interchangeable part."""
SHARED_MODULES = {
    "lakelog.sql.procedures": Procedure,
    "lakelog.sql.statements": ParsedStatement,
    "lakelog.table.system": TableScan,
}
"""Packages whose modules have several parts → the type of these."""
PARTICIPLES = {"found", "given", "held", "made", "wanted", "own", "whole"}
MOST_PARTICIPLES = 254
"""Number of variables with such a name. It may only fall: a variable is named by its noun (`snapshot`)."""
SMALL_ROOMS = {
    "io/locks": "a lock per file: parts",
    "io/remote": "a client of servers per file, by import contract",
    "service/dashboard/actions": "the list of actions, and the process that runs them",
    "service/servers": "the only place of the demo's server and its jars, by import contract",
    "spark/lookup": "the driver's and the tasks' side of the lookup join, next to session and native",
}
"""Folders with fewer than three files, each with the reason."""
LARGE_ROOMS = {
    "options": "a file per group of options, all declarations of one kind; parts and readers know only these"
}
"""Folders with more than fifteen files, each with the reason."""


def python_files() -> list[Path]:
    return [
        path for folder in ("src", "tests", "scripts", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))
    ]


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleType]:
    names = [found.name for found in pkgutil.walk_packages(lakelog.__path__, "lakelog.")]
    return {name: importlib.import_module(name) for name in names if name != "lakelog.__main__"}


def registries(modules: dict[str, ModuleType]) -> Iterator[tuple[str, Registry[Any]]]:
    seen = set()
    for module in [lakelog, *modules.values()]:
        for name, value in vars(module).items():
            if isinstance(value, Registry) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


def test_a_test_leaves_nothing_in_the_repository() -> None:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    folders = {name.partition("/")[0] for name in listing.split("\0") if "/" in name}
    assert folders <= FOLDERS, "a stray folder, or a new one for FOLDERS"


@pytest.mark.filterwarnings("default")
def test_a_file_has_at_most_500_lines() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_bytes().splitlines()) for path in python_files()}
    warn_beyond(400, "lines", lines)
    assert {name: count for name, count in lines.items() if count > 500} == {}


@pytest.mark.filterwarnings("default")
def test_a_room_has_3_to_15_files() -> None:
    rooms = {path.parent for path in SOURCE.rglob("*.py")}
    files = {room: [path for path in room.glob("*.py") if path.name != "__init__.py"] for room in rooms}
    inner = {room: [other for other in rooms if other.parent == room] for room in rooms}
    small = {str(room.relative_to(SOURCE)) for room in rooms if files[room] and len(files[room] + inner[room]) < 3}
    counts = {str(room.relative_to(SOURCE)): len(files[room]) for room in rooms}
    warn_beyond(12, "files", {name: count for name, count in counts.items() if name not in LARGE_ROOMS})
    assert small == set(SMALL_ROOMS)  # a room that has grown leaves the list
    assert {name for name, count in counts.items() if count > 15} == set(LARGE_ROOMS)


def warn_beyond(limit: int, unit: str, counts: dict[str, int]) -> None:
    """Warns of what approaches the limit that fails: time to look for the noun that hides in it."""
    large = {name: count for name, count in counts.items() if count > limit}
    if large:
        warnings.warn(f"more than {limit} {unit}: {large}", stacklevel=2)


def test_fewer_variables_are_named_by_a_participle() -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in nodes if isinstance(node, ast.arg)]
    count = sum(name in PARTICIPLES for name in names)
    assert count <= MOST_PARTICIPLES, "name new variables by their noun, such as `snapshot`"


def test_every_folder_of_the_package_is_a_package() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_module_says_what_it_is(modules: dict[str, ModuleType]) -> None:
    assert [name for name, module in modules.items() if not (module.__doc__ or "").strip()] == []


@pytest.mark.parametrize("script", ["generate_reference.py", "house_picture.py"])
def test_generated_files_match_the_code(script: str) -> None:
    # In a process of its own: click keeps the help option of the first call of a command, which a test may have made.
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "error",
    [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, errors.LakelogError)],
    ids=lambda error: error.__name__,
)
def test_every_error_survives_the_way_between_machines(error: type[errors.LakelogError]) -> None:
    sent = error("option 'bucket' = 'four' is not an int")
    received = pickle.loads(pickle.dumps(sent))
    assert type(received) is error
    assert str(received) == str(sent)
    assert received.retriable is sent.retriable


def test_every_error_class_of_the_package_is_declared_in_errors(modules: dict[str, ModuleType]) -> None:
    elsewhere = {
        f"{value.__module__}.{value.__name__}"
        for module in modules.values()
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, errors.LakelogError) and value.__module__ != "lakelog.errors"
    }
    assert elsewhere == set()


def test_every_registered_part_loads(modules: dict[str, ModuleType]) -> None:
    for where, registry in registries(modules):
        for name in registry:
            assert registry.load(name) is not None, f"{where}: {name}"


def test_only_one_room_asks_for_the_version_of_spark() -> None:
    """What a release lacks has a name in ``spark/compat/natives.py``; others ask for it by that name."""
    allowed = {SOURCE / "spark" / "__init__.py", *(SOURCE / "spark" / "compat").glob("*.py")}
    asking = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted((SOURCE / "spark").rglob("*.py"))
        if path not in allowed
        for node in ast.walk(ast.parse(path.read_bytes()))
        if (isinstance(node, ast.Attribute) and node.attr in ("__version__", "version", "version_info"))
        or (isinstance(node, ast.ImportFrom) and any(a.name in ("RELEASE", "__version__") for a in node.names))
    ]
    assert asking == []


def test_an_rfc_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in (ROOT / "rfcs").glob("0*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def test_no_file_compares_with_the_name_of_a_part() -> None:
    parts = {*MERGE_ENGINES, *LOG_SYSTEMS, *LOG_FORMATS, *FILE_FORMATS, *LOCKS, *CATALOGS, *PROCEDURES}
    names = "|".join(sorted(parts - {"file", "files", "sql"}))  # words with other meanings, too
    compared = re.compile(rf'(==|!=|\bin) *[(\[{{]?"({names})"')
    found = [path for path in SOURCE.rglob("*.py") if compared.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(SOURCE)) for path in found] == []


def test_every_file_of_a_folder_of_parts_is_registered(modules: dict[str, ModuleType]) -> None:
    registered = {
        getattr(registry.load(name), "__module__", "") for _, registry in registries(modules) for name in registry
    }
    parts = {
        ".".join(("lakelog", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in SOURCE.rglob("*.py")
        if PARTS.intersection(path.relative_to(SOURCE).parts) and path.name != "__init__.py"
    }
    assert parts - registered == set()


@pytest.mark.parametrize(("package", "kind"), SHARED_MODULES.items(), ids=SHARED_MODULES)
def test_every_part_of_a_shared_module_is_registered(package: str, kind: type, modules: dict[str, ModuleType]) -> None:
    registered = [registry.load(name) for _, registry in registries(modules) for name in registry]
    parts = {
        name: value
        for module in modules.values()
        if module.__name__.startswith(f"{package}.")
        for name, value in vars(module).items()
        if isinstance(value, kind)
        or (inspect.isclass(value) and issubclass(value, kind) and value.__module__ == module.__name__)
    }
    assert {name for name, value in parts.items() if value not in registered and not inspect.isabstract(value)} == set()


def test_a_package_exports_its_declared_names(modules: dict[str, ModuleType]) -> None:
    for name, module in modules.items():
        declared = getattr(module, "__all__", None)
        if declared is None:
            continue
        assert [one for one in declared if not hasattr(module, one)] == [], name
        assert sorted(declared) == sorted(set(declared)), name


def test_the_names_at_the_top_are_exactly_those_in_all() -> None:
    known = "AsyncTail CompactionSummary HIGH_THROUGHPUT LOW_LATENCY Lake LakeCut LakelogError MergeBuilder Metrics "
    known += "OverwriteWriter Predicate Result RowCounts Snapshot Table TableHealth TableScan TableWriter Tag Tail "
    known += "__version__ attach connect errors metrics open_table pipe scan_polars variant"
    assert sorted(lakelog.__all__) == known.split()
    assert all(getattr(lakelog, name) is not None for name in lakelog.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'conn'"):
        lakelog.conn  # noqa: B018


ARCHITECTURE = ROOT / "ARCHITECTURE.md"


def test_the_architecture_names_every_room() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| (.+) \|$", text, re.MULTILINE)
    named = {SOURCE / package: set(re.findall(r"`(\w+)`", rooms)) for package, rooms in rows}
    folders = {init.parent for init in SOURCE.rglob("__init__.py")} - {SOURCE}
    rooms = {folder: {room.name for room in folders if room.parent == folder} for folder in folders}
    drawn = set(re.findall(r"\w+", text.partition("```text")[2].partition("```")[0]))
    assert {folder.name for folder in folders if folder.parent == SOURCE} - drawn == set()
    assert {folder: found for folder in folders if (found := rooms[folder] - named.get(folder, set()))} == {}
    gone = {(folder, name) for folder, names in named.items() for name in names - rooms.get(folder, set())}
    assert {(folder, name) for folder, name in gone if not (folder / f"{name}.py").exists()} == set()


def test_the_files_that_the_architecture_names_exist() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    known = {f"/{path.relative_to(ROOT)}" for path in python_files()}
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(named) > 50
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in known)} == set()


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {link}"


def test_every_link_of_a_page_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "rfcs").glob("*.md")]
    assert [link for page in pages for link in broken_links(page)] == []


def test_the_version_is_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\nversion = " not in project
    assert '[tool.hatch.version]\npath = "src/lakelog/__init__.py"' in project
    assert f"## {lakelog.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

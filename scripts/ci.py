"""The lanes of a landing: their order, their budgets, what a change touches; and one table of what they cost.

``run`` (the last line of ``.ci/run``) runs all lanes: checks first, then what is cheap, then two at a time the lanes
that the change touches, and the rest. ``affected`` (``make affected``) runs the checks, and the tests that the change
touches. A change is what the working tree has and ``--base`` has not.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, Final

import grimp
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parent.parent
REPORTS: Final = ROOT / "build" / "lanes"
_DISTANCE: Final = 2
"""A test file is affected by the modules that it imports, and by those that they import."""
_LAST_LINES_S: Final = 10
_AGAIN_S: Final = 180
"""Seconds for the second run of a lane's failed tests: whoever reads the run waits for them."""
_MOST_FILES: Final = 60
"""``affected`` runs no more test files than a few minutes allow."""


@dataclass(frozen=True)
class Lane:
    """A verb of the Makefile, the seconds that it may take on a quiet machine of two cores, and the folders of
    ``src/lakelog``, ``tests`` or ``docs`` whose change it answers to (``/`` is any)."""

    verb: str
    budget_s: int
    rooms: tuple[str, ...] = ("/",)

    def is_touched(self, rooms: set[str]) -> bool:
        """Whether one of the changed files is in one of its folders."""
        return any(f"/{room}".startswith(f"/{own.strip('/')}") for own in self.rooms for room in rooms)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What its calls of pytest have written."""
        names = ("test", "smoke") if self.verb == "test" else (self.verb.removeprefix("test-"),)
        files = [REPORTS / f"{name}.json" for name in names]
        return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


FIRST: Final = (Lane("check", 25), Lane("test", 240))
TOGETHER: Final = 2
"""Lanes that run at the same time: they wait for servers, for JVMs and for time to pass."""
LANES: Final = (
    *FIRST,
    Lane("test-servers", 420, ("logstore", "io", "catalog", "service/ingest", "contract", "integration", "storage")),
    Lane("test-deep", 400, ("table", "filestore", "logstore", "merge", "state", "property")),
    Lane("test-spark", 350, ("spark", "sql", "lake")),
    Lane("test-docs", 250, ("docs", "examples", "sql", "cli")),
    Lane("test-chaos", 150, ("table/commit", "chaos")),
    Lane("test-on-connect", 120, ("spark",)),
    Lane("test-browser", 90, ("service/dashboard", "service/terminal", "browser")),
    Lane("test-lowest", 90, ("fileformat", "merge", "paimon")),
    Lane("test-hosts", 30, ("spark/session", "hosts", "deploy")),
)


@dataclass(frozen=True)
class Run:
    """A lane that has ended."""

    lane: Lane
    seconds: float
    status: int
    unstable: tuple[str, ...] = ()


def changed_files(base: str) -> list[Path]:
    """The files that the working tree has otherwise than a commit; those of the last commit where there is no base."""
    base = base or os.environ.get("LAKELOG_BASE", "")
    for commit in (base, "origin/main", "HEAD~1"):
        if commit and _git("rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"):
            names = [*_git("diff", "--name-only", commit), *_git("ls-files", "--others", "--exclude-standard")]
            if names:
                return [Path(name) for name in names]
    return []


def rooms_of(files: list[Path]) -> set[str]:
    """The folders of changed files, below the package or the repository."""
    folders = {file.parent.as_posix() for file in files}
    return {folder.removeprefix("src/lakelog/").removeprefix("tests/") for folder in folders}


def affected_tests(files: list[Path]) -> list[Path]:
    """The test files that have changed, and those that import a changed module, at most over one other."""
    graph = grimp.build_graph("lakelog", cache_dir=None)
    names = {
        ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__")
        for file in files
        if file.parts[:1] == ("src",)
    }
    near = dict.fromkeys(names & graph.modules, 0)
    for step in range(1, _DISTANCE):
        for module in [name for name, steps in near.items() if steps == step - 1]:
            near.update(
                {importer: step for importer in graph.find_modules_that_directly_import(module) if importer not in near}
            )
    changed = {ROOT / file for file in files}
    rooms = {f"tests/unit/{name.split('.')[1]}" for name in near if "." in name and near[name] == 0}  # parts by name
    steps: dict[Path, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        imported = _imports(path)
        if path in changed:
            steps[path] = -1
        elif found := [near[name] for name in near if name in imported]:
            steps[path] = min(found)
        elif path.relative_to(ROOT).parent.as_posix() in rooms:
            steps[path] = _DISTANCE
    return sorted(steps, key=lambda path: (steps[path], path))[:_MOST_FILES]


def _imports(path: Path) -> set[str]:
    imports: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
    return imports


def run_lane(lane: Lane) -> Run:
    """Runs a lane, and its failed tests a second time: one that passes then is unstable, and still a failure.

    Each line of its output begins with its verb, because two lanes write at the same time.
    """
    started = perf_counter()
    command = ["make", "--keep-going", lane.verb]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    printer = Thread(target=_print_lines, args=(lane.verb, process), daemon=True)
    printer.start()
    process.wait()
    printer.join(_LAST_LINES_S)  # no longer, because a process that outlives the lane keeps its pipe open
    seconds = perf_counter() - started
    failed = [(report, test) for report in lane.reports for test in report["failed"]]
    end = perf_counter() + _AGAIN_S
    unstable = tuple(test for report, test in failed[:10] if _passes(report, test, end - perf_counter()))
    return Run(lane, seconds, process.returncode, unstable)


def _print_lines(verb: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(f"{verb}: {line}")
        sys.stdout.flush()


def _passes(report: dict[str, Any], test: str, timeout_s: float) -> bool:
    """Whether a test of a lane passes by itself in time, with the interpreter and the kind of Spark of its lane."""
    if timeout_s <= 0:
        return False
    command = [report["python"], "-m", "pytest", "-q", test]
    environment = {name: value for name, value in os.environ.items() if name != "LAKELOG_LANE"} | report["environment"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(timeout_s) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the servers that it has started
        process.wait()
        return False


def run_all(base: str) -> int:
    """Runs all lanes, those that the change touches first. Returns the status of the run."""
    for report in REPORTS.glob("*.json"):
        report.unlink()
    rooms = rooms_of(changed_files(base))
    started = perf_counter()
    runs: list[Run] = []
    for lane in FIRST:
        runs.append(run_lane(lane))
        if runs[-1].status and lane == FIRST[0]:
            break  # seconds of work for whoever reads it: no hour of tests before
    else:
        rest = sorted((lane for lane in LANES if lane not in FIRST), key=lambda lane: not lane.is_touched(rooms))
        with ThreadPoolExecutor(TOGETHER) as pool:
            runs += [ended.result() for ended in as_completed([pool.submit(run_lane, lane) for lane in rest])]
    _print(runs, perf_counter() - started)
    return int(any(run.status for run in runs))


def _print(runs: list[Run], seconds: float) -> None:
    table = Table("lane", "seconds", "budget", "passed", "failed", "servers")
    for run in runs:
        reports = run.lane.reports
        outcomes = {name: sum(report["outcomes"].get(name, 0) for report in reports) for name in ("passed", "failed")}
        servers: dict[str, int] = {}
        for report in reports:
            for name, count in report["servers"].items():
                servers[name] = servers.get(name, 0) + count
        late = " over" if run.seconds > 1.5 * run.lane.budget_s else ""
        cells = (f"{run.seconds:.0f}", f"{run.lane.budget_s}{late}", *(str(count) for count in outcomes.values()))
        table.add_row(run.lane.verb, *cells, ", ".join(f"{count} {name}" for name, count in servers.items() if count))
    console = Console(width=120)
    console.print(table)
    console.print(f"{seconds:.0f} s in all, {TOGETHER} lanes at a time")
    for run in runs:
        for test in run.unstable:
            console.print(
                f"unstable: {test} failed in {run.lane.verb} and passed by itself", style="red", highlight=False
            )
        for report in run.lane.reports:
            for test, error in report["failed"].items():
                console.print(f"{run.lane.verb}: {test}", error, sep="\n", style="red", highlight=False, markup=False)
            for name, count in report["restarts"].items():
                console.print(f"{run.lane.verb}: {name} died and was started again, {count} times", style="red")
    passed, failed = (
        sum(report["outcomes"].get(name, 0) for run in runs for report in run.lane.reports)
        for name in ("passed", "failed")
    )
    console.print(f"{passed} passed, {failed} failed", highlight=False)


def run_affected(base: str) -> int:
    """Runs the checks and the affected test files. Returns the status of the run."""
    files = changed_files(base or "HEAD")
    tests = [str(path.relative_to(ROOT)) for path in affected_tests(files)]
    touched = [lane.verb for lane in LANES if lane not in FIRST and lane.is_touched(rooms_of(files))]
    console = Console()
    console.print(
        f"{len(files)} changed files: {len(tests)} test files; lanes that they touch: {', '.join(touched) or 'none'}"
    )
    status = subprocess.run(["make", "check"], cwd=ROOT, check=False).returncode
    if tests:
        servers = ("kafka", "pulsar", "s3", "hdfs", "postgres", "rest", "hosts", "browser")
        no_server = " and ".join(f"not {name}" for name in servers)
        options = ["-n", "2", "--dist", "worksteal", "--cases", "1/3", "-m", f"not slow and {no_server}"]
        command = [sys.executable, "-m", "pytest", "-q", *options, *tests]
        console.print(shlex.join(command), highlight=False, soft_wrap=True)
        status = subprocess.run(command, cwd=ROOT, check=False).returncode or status
    return status


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "affected"))
    parser.add_argument(
        "--base", default="", help="the commit that the change began with; by default the last landed one"
    )
    given = parser.parse_args()
    return run_all(given.base) if given.verb == "run" else run_affected(given.base)


if __name__ == "__main__":
    sys.exit(main())

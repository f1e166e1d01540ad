"""Every ``python``, ``sql`` and ``bash`` block of README and docs runs, page by page, each page in its own process.

The blocks of a page run in order, and its Python blocks share their names, as in a session of a user: no name is there
that the page has not made. Each page runs in an empty directory, so that it needs nothing that another one has made. A
drawn share of the pages runs again in a directory of the same path with its own files and those of all pages before it,
so that it can be repeated and pages do not disturb each other. The processes find a running JVM, which saves a third.
SQL runs in the ``lake`` of the page, or as ``lakelog sql`` would.
A ``text`` block right after one of them is what it prints. ``console`` blocks are for the reader only.
``localhost:9092`` on a page means a real Kafka broker, ``http://localhost:9000`` a real object store with a bucket
``lake``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

import lakelog

if __name__ != "__main__":  # a page runs in a process that has no path to the tests
    from secrets_in_files import leaked

if TYPE_CHECKING:  # a page runs in a process that has no path to the tests
    from depth import Depth
    from servers.s3_server import S3Server

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sql", "bash")
KAFKA, S3 = "localhost:9092", "http://localhost:9000"
_GATEWAY: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""The variables of a JVM that PySpark takes instead of starting one."""
_CREATED = re.compile(r"create[ _]database(?: if not exists)?[ (]+[\"']?([\w.]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its first line; and what it must print, if the page says so."""

    language: str
    text: str
    line: int
    output: str | None = None


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page that run."""
    found = list(re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    blocks = []
    for at, fence in enumerate(found):
        if fence[1] not in RUN:
            continue
        after = found[at + 1] if at + 1 < len(found) else None
        follows = after is not None and after[1] == "text" and not page[fence.end() : after.start()].strip()
        line = page.count("\n", 0, fence.start()) + 2
        blocks.append(Block(fence[1], fence[2], line, after[2] if after is not None and follows else None))
    return blocks


def run_page(path: Path, kafka: str, s3: str) -> None:
    """Runs the blocks of one page in the current directory; raises where a block fails or prints something else.

    At the end, its lakes are closed, and its queries end with Spark's session.
    """
    names: dict[str, Any] = {"__name__": "__docs__"}
    try:
        _run_blocks(path, names, kafka, s3)
    finally:
        for lake in {id(value): value for value in names.values() if isinstance(value, lakelog.Lake)}.values():
            lake.close()
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()


def _run_blocks(path: Path, names: dict[str, Any], kafka: str, s3: str) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8").replace(KAFKA, kafka).replace(S3, s3)):
        where = f"{path.name}:{block.line}"
        printed = _printed_by(block, where, names)
        if block.output is not None and _trimmed(printed) != _trimmed(block.output):
            raise AssertionError(f"{where} printed\n{printed}\nand the page says\n{block.output}")


def _printed_by(block: Block, where: str, names: dict[str, Any]) -> str:
    if block.language == "bash":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        own = {name: value for name, value in os.environ.items() if name not in _GATEWAY}
        done = subprocess.run(command, env={**own, "PATH": path}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"
        return done.stdout
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if block.language == "sql":
            (names.get("lake") or _command_line()).run(block.text)
        else:
            exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), names)
    return out.getvalue()


@functools.cache
def _command_line() -> lakelog.Lake:
    """The lake of ``lakelog sql``."""
    return lakelog.connect()


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def s3(s3_server: S3Server) -> str:
    s3_server.new_bucket("lake")
    return s3_server.endpoint


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all pages; each of its own files is of a page that ran before."""
    place = tmp_path_factory.mktemp("docs") / "place"
    place.mkdir()
    return place


@pytest.fixture(scope="module")
def running_jvm(place: Path) -> Iterator[dict[str, str]]:
    """The variables of a process whose Spark takes a JVM that runs already, in the directory of the pages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        gateway = launch_gateway()
    reached = gateway.gateway_parameters
    yield {**os.environ, **dict(zip(_GATEWAY, (str(reached.port), reached.auth_token), strict=True))}
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@contextlib.contextmanager
def emptied(place: Path) -> Iterator[None]:
    """A directory without its files during the block; afterwards with them and those of the block.

    The directory itself stays: it is the current one of the running JVM, and so of Spark's Python workers.
    """
    aside = place.with_name("aside")
    aside.mkdir()
    move_into(place, aside)
    try:
        yield
    finally:
        move_into(place, aside)
        move_into(aside, place)
        aside.rmdir()


def move_into(place: Path, other: Path) -> None:
    """Moves the files of a directory into another one, where they replace files of the same path."""
    for found in list(place.iterdir()):
        there = other / found.name
        if found.is_dir() and there.is_dir():
            move_into(found, there)
            found.rmdir()
        else:
            found.replace(there)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.exists() and blocks_of(page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_of_the_page_runs_and_prints_what_it_says(
    page: Path, place: Path, running_jvm: dict[str, str], depth: Depth, request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    kafka = request.getfixturevalue("kafka").bootstrap if KAFKA in text else KAFKA
    s3 = request.getfixturevalue("s3") if S3 in text else S3
    command = [sys.executable, __file__, str(page), kafka, s3]
    again = depth.is_whole or depth.keeps(f"again {page.name}", 0, 1, Fraction(1, 5))
    for where in ("", "the second run of the page:\n")[: 1 + again]:
        with contextlib.nullcontext() if where else emptied(place):
            done = subprocess.run(
                command, cwd=place, env=running_jvm, capture_output=True, text=True, timeout=280, check=False
            )
            assert leaked(place, text) == []
        assert done.returncode == 0, f"{where}{done.stdout}\n{done.stderr}"


def test_no_two_pages_create_the_same_database() -> None:
    owners: dict[str, set[str]] = {}
    for page in PAGES:
        for database in _CREATED.findall("\n".join(block.text for block in blocks_of(page.read_text("utf-8")))):
            owners.setdefault(database, set()).add(page.name)
    assert {name: pages for name, pages in owners.items() if len(pages) > 1} == {}


if __name__ == "__main__":
    run_page(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    sys.stdout.flush()
    # Streams that a page leaves running end with it.
    os._exit(0)

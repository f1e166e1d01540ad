"""The docs site: it builds without a warning, and its pages work from files, without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_LOADS = {"script": "src", "link": "href", "img": "src", "source": "srcset", "iframe": "src"}
"""Elements that a browser loads by itself → the attribute with the address."""


class Addresses(HTMLParser):
    """The addresses of a page: what a browser loads, and what a reader can follow."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if named.get("rel") in ("canonical", "prev", "next"):
            return
        if address := named.get(_LOADS.get(tag, "")):
            self.loaded.append(address)
        if tag == "a" and (address := named.get("href")):
            self.linked.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning, such as a broken link or a page without navigation, fails the build."""
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return site


def pages_of(site: Path) -> Iterator[tuple[Path, Addresses]]:
    return ((page, Addresses(page)) for page in site.rglob("*.html"))


def test_nothing_is_loaded_from_a_network(site: Path) -> None:
    remote = [(page.name, to) for page, found in pages_of(site) for to in found.loaded if re.match(r"(https?:)?//", to)]
    assert remote == []
    styles = "".join(style.read_text(encoding="utf-8") for style in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?https?:", styles) == []


def test_every_address_of_a_page_is_a_file_of_the_site(site: Path) -> None:
    local = [
        (page, address.partition("#")[0])
        for page, found in pages_of(site)
        if page.name != "404.html"  # a server's page, with addresses from its root
        for address in (*found.loaded, *found.linked)
        if not re.match(r"(https?|mailto|data):|#", address)
    ]
    assert len(local) > 1000
    assert {(page.name, to) for page, to in local if to and not (page.parent / to).resolve().is_file()} == set()


def test_the_search_works_from_files_and_finds_every_page(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    for page in ("compare", "costs", "migrate", "troubleshooting", "tutorials/cdc", "reference/python"):
        assert f'"{page}.html' in index


@pytest.mark.parametrize("word", ["backup", "upgrade", "airflow", "uninstall"])
def test_a_word_that_is_searched_is_a_heading(site: Path, word: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    guides = {part["location"] for part in index["docs"] if word in part["title"].lower()}
    assert any(not place.startswith(("project/", "reference/cli", "reference/python")) for place in guides)


def test_the_python_reference_has_the_names_of_the_package(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("connect", "Lake.sql", "Lake.write", "Table.scan", "Table.tail", "Table.merge", "Table.create_tag"):
        assert re.search(rf'id="lakelog\.lake[\w.]*\.{re.escape(name)}"', text), name


def test_the_picture_of_the_first_page_fits_a_phone() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert blocks and max(len(line) for block in blocks for line in block.splitlines()) <= 52

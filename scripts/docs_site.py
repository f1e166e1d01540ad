"""Hooks of the docs site (mkdocs.yml): pages that are outside of docs, and links that work on both sides.

The README's neighbours and the RFCs are part of the site. A link to another file of the repository, such as a source
file, becomes its name in code: the site works from files, without an address of the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parent.parent
PROJECT: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")
_LINK: Final = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)(?P<path>[^)#]+)(?P<anchor>#[^)]*)?\)"
)
_SOURCE: Final = re.compile(r'(?P<name>src|srcset)="(?!https?:|data:)(?P<path>[^"]+)"')


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are outside of docs."""
    for page in (*(ROOT / name for name in PROJECT), *sorted((ROOT / "rfcs").glob("*.md"))):
        files.append(File.generated(config, site_path(str(page.relative_to(ROOT))), abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The page with its links as the site needs them."""
    site = page.file.src_uri
    return with_site_links(markdown, repository_path(site), site, {file.src_uri for file in files})


def site_path(path: str) -> str:
    """The path of a page in the site: ``docs/x.md`` → ``x.md``; pages outside of docs are below ``project``."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def repository_path(site: str) -> str:
    """The path of a page in the repository."""
    return site.removeprefix("project/") if site.startswith("project/") else f"docs/{site}"


def with_site_links(markdown: str, path: str, site: str, known: set[str]) -> str:
    """The text with links relative to the site's page; a link to a file that is no page is only its text.

    ``path`` is the page in the repository, ``site`` the page in the site, ``known`` are the files of the site.
    """

    def target(link: str) -> str:
        return site_path(posixpath.normpath(posixpath.join(posixpath.dirname(path), link)))

    def link_of(found: re.Match[str]) -> str:
        to = target(found["path"])
        if to not in known:
            return found[0] if (ROOT / repository_path(to)).suffix == ".md" else found["text"]
        return f"[{found['text']}]({posixpath.relpath(to, posixpath.dirname(site))}{found['anchor'] or ''})"

    def source_of(found: re.Match[str]) -> str:
        # The pages are files of the same depth as their sources, and a browser resolves these links, not MkDocs.
        return f'{found["name"]}="{posixpath.relpath(target(found["path"]), posixpath.dirname(site))}"'

    return _SOURCE.sub(source_of, _LINK.sub(link_of, markdown))

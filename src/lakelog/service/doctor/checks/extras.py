"""Which optional parts are installed, and is a required one missing?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, Final

from lakelog.catalog import CATALOGS
from lakelog.errors import NotInstalled
from lakelog.io import STORAGES, scheme_of
from lakelog.options.catalog import CATALOG_OPTIONS, CATALOG_TYPE
from lakelog.options.option import Options
from lakelog.service.doctor.check import Check, CheckContext, Finding

_PACKAGE: Final = "lakelog"
_OF_EXTRA: Final = re.compile(r"""([\w.-]+)(?:\[(.+?)\])?[^;]*; *extra *== *["']([\w.-]+)["']""")
"""A requirement of an extra in the metadata of a package: name, its extras, extra; others depend on the machine."""
_NOT_OF_USERS: Final = ("all", "bench", "dev", "docs")


class ExtrasCheck(Check):
    """The extras of lakelog, as its metadata declare them."""

    NAME = "extras"
    TITLE = "optional parts"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        for load in _needed(around):
            try:
                load()
            except NotInstalled as missing:
                about, _, command = str(missing).partition(" needs: ")
                yield self.failed(f"{about} needs an extra that is missing", command)
        if not extras():
            yield self.warned("lakelog is not installed as a package, so its extras are unknown", "install it with pip")
            return
        packages = {extra: tuple(required(_PACKAGE, extra)) for extra in extras() if extra not in _NOT_OF_USERS}
        have = {extra: names[0] for extra, names in packages.items() if all(map(_version, names))}
        others = [extra for extra in packages if extra not in have]
        shown = [f"{extra} ({first} {_version(first)})" for extra, first in have.items()]
        text = f"installed: {', '.join(shown) or 'none'}"
        yield self.passed(f"{text}; not installed: {', '.join(others)}" if others else text)


def _needed(around: CheckContext) -> Iterator[Callable[[], Any]]:
    """What this warehouse, catalog and log need; each call raises NotInstalled if its extra is missing."""
    scheme = scheme_of(around.warehouse)
    if scheme in STORAGES:  # the check of the storage reports an unknown one
        yield lambda: STORAGES.load(scheme)
    kind = Options(CATALOG_OPTIONS.canonical(around.catalog_options)).need(CATALOG_TYPE)
    yield lambda: CATALOGS.load(kind)
    yield around.log_factory


def extras() -> list[str]:
    """The extras of lakelog."""
    return list(dict.fromkeys(extra for _, _, extra in _requirements(_PACKAGE)))


def required(package: str, extra: str) -> Iterator[str]:
    """The packages of an extra, with those of the extras that these have."""
    for name, inner, of in _requirements(package):
        if of == extra:
            yield from [] if name == package else [name]
            for one in filter(None, inner.split(",")):
                yield from required(name, one.strip())


def _requirements(package: str) -> Iterator[tuple[str, str, str]]:
    """(package, its extras, extra) of all extras of a package; none if it is not installed."""
    try:
        found = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return
    for line in found:
        if match := _OF_EXTRA.fullmatch(line):
            yield match[1], match[2] or "", match[3]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

"""Picks an interchangeable part by name and loads it when it is first asked for."""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

from lakelog.errors import InvalidRequest, NotInstalled, did_you_mean

P = TypeVar("P")


class Registry(Collection[str], Generic[P]):
    """Names of one kind of part → ``"module:Name"`` (or ``"module:Name.method"``).

    A new part is one class and one line here; or, of another package, an entry point of ``group``. ``extras`` maps a
    foreign root package to the extra of lakelog that brings it, so that a missing one is answered with the pip command.
    """

    def __init__(
        self, kind: str, parts: Mapping[str, str], extras: Mapping[str, str] | None = None, group: str = ""
    ) -> None:
        self.kind = kind
        self.group = group
        self._parts = dict(parts)
        self._extras = dict(extras or {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._with_installed())

    def __len__(self) -> int:
        return len(self._with_installed())

    def __contains__(self, name: object) -> bool:
        if name in self._with_installed():
            return True
        installed_parts.cache_clear()  # it may have been installed since
        return name in self._with_installed()

    def load(self, name: str) -> Any:
        """The class or function of a name. Raises InvalidRequest or NotInstalled."""
        if name not in self:
            hint = did_you_mean(name, self, ".")
            raise InvalidRequest(f"unknown {self.kind} '{name}'{hint} Known: {', '.join(self)}")
        return load_target(self.kind, name, self._with_installed()[name], self._extras)

    def create(self, name: str, *args: Any, **kwargs: Any) -> P:
        """Makes the part of this name."""
        part: P = self.load(name)(*args, **kwargs)
        return part

    def importable(self) -> dict[str, Any]:
        """Imports all parts, in order. A part that cannot be imported is left out, and fails where its name is used."""
        parts = {}
        for name in self:
            with contextlib.suppress(Exception):
                parts[name] = self.load(name)
        return parts

    def _with_installed(self) -> Mapping[str, str]:
        """lakelog's own parts, then those of other packages; own names are not replaced."""
        installed = installed_parts().get(self.group, {}) if self.group else {}
        return {**self._parts, **{name: target for name, target in installed.items() if name not in self._parts}}


@functools.cache
def installed_parts() -> Mapping[str, Mapping[str, str]]:
    """The entry points of all packages: group → name → target. It reads a file of each package, so it is kept."""
    metadata = importlib.import_module("importlib.metadata")  # late: it takes as long as the rest of lakelog
    parts: dict[str, dict[str, str]] = {}
    for package in metadata.distributions():
        for point in package.entry_points:
            parts.setdefault(point.group, {}).setdefault(point.name, point.value)
    return parts


def load_target(kind: str, name: str, target: str, extras: Mapping[str, str]) -> Any:
    """The object ``"module:Name"``. Raises NotInstalled if the package of an extra is missing."""
    module, _, attribute = target.partition(":")
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except ModuleNotFoundError as missing:
        extra = extras.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        raise NotInstalled(f"{kind} '{name}' needs: pip install 'lakelog[{extra}]'") from missing

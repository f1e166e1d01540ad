"""Picks an interchangeable part by name and loads it when it is first asked for."""

from __future__ import annotations

import difflib
import importlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from lakelog.errors import InvalidRequest, NotInstalled

P = TypeVar("P")


class Registry(Generic[P]):
    """Names of one kind of part → ``"module:Name"`` (or ``"module:Name.method"``).

    A new part is one file and one line here. ``extras`` maps a foreign root package to the extra of
    lakelog that brings it, so that a missing one is answered with the pip command.
    """

    def __init__(self, kind: str, parts: Mapping[str, str], extras: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._parts = dict(parts)
        self._extras = dict(extras or {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def load(self, name: str) -> Any:
        """The class or function behind a name. Raises InvalidRequest or NotInstalled."""
        target = self._parts.get(name)
        if target is None:
            near = difflib.get_close_matches(name, self._parts, 1)
            hint = f", did you mean '{near[0]}'?" if near else ""
            raise InvalidRequest(f"unknown {self.kind} '{name}'{hint} Known: {', '.join(self._parts)}")
        module, _, attribute = target.partition(":")
        try:
            return operator.attrgetter(attribute)(importlib.import_module(module))
        except ModuleNotFoundError as missing:
            extra = self._extras.get((missing.name or "").partition(".")[0])
            if extra is None:
                raise
            raise NotInstalled(f"{self.kind} '{name}' needs: pip install 'lakelog[{extra}]'") from missing

    def create(self, name: str, *args: Any, **kwargs: Any) -> P:
        """Makes the part of this name."""
        part: P = self.load(name)(*args, **kwargs)
        return part

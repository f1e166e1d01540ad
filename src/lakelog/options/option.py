"""One declared option: key, type, default, meaning; and a typed bag of given values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from lakelog.errors import InvalidOption, closest_name, did_you_mean
from lakelog.options.secrets import HIDDEN, looks_secret

T = TypeVar("T")

_UNITS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "mins": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_SIZES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "bytes": 1}


class MemorySize(int):
    """A number of bytes, written as text like ``'128 mb'``."""


def parse_duration(text: str) -> timedelta:
    """Reads ``'2 s'``, ``'500ms'``, ``'1 h'``; a bare number is milliseconds, as in Paimon."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or (unit := match[2].lower() or "ms") not in _UNITS:
        raise ValueError(f"not a duration: {text!r} (write '500 ms', '2 s', '1 h')")
    return timedelta(milliseconds=float(match[1]) * _UNITS[unit])


def parse_size(text: str) -> MemorySize:
    """Reads ``'128 mb'``, ``'64kb'``, ``'1024'`` as a number of bytes."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _SIZES:
        raise ValueError(f"not a size: {text!r} (write '128 mb', '64 kb', '1024')")
    return MemorySize(int(match[1]) * _SIZES[match[2].lower()])


def _parse(kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("write 'true' or 'false'")
        return text.lower() == "true"
    if kind is timedelta:
        return parse_duration(text)
    if kind is MemorySize:
        return parse_size(text)
    return kind(text)


@dataclass(frozen=True)
class Option(Generic[T]):
    """An option, declared once: its documentation, parsing and default come from here.

    ``choices`` limits a text option (a registry: to the names in it); ``aliases`` are other spellings (Arctic's, Table
    Store's), ``words`` those of values;
    ``immutable`` means that it cannot change once the table has a snapshot; ``scope`` says where it
    may be given: ``table`` (CREATE TABLE), ``read``/``write`` (hints and DataFrame options), ``lake``; ``fault`` says
    why a value is refused, or "".
    """

    key: str
    kind: type[T]
    default: T | None
    doc: str
    scope: tuple[str, ...] = ("table",)
    choices: Collection[str] = ()
    aliases: tuple[str, ...] = ()
    immutable: bool = False
    secret: bool = False
    fault: Callable[[T], str] | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def canonical_text(self, text: str) -> str:
        """The text of a value in the option's own spelling."""
        return self.words.get(text.strip().lower(), text)

    def parse(self, text: str) -> T:
        """Turns the text given by a user into a value; raises InvalidOption naming key and value."""
        try:
            value = _parse(self.kind, self.canonical_text(str(text)).strip())
        except ValueError as why:
            raise InvalidOption(f"option '{self.key}' = '{text}' is not a valid {self.kind.__name__}: {why}") from None
        if self.choices and value not in self.choices:
            raise InvalidOption(f"option '{self.key}' = '{text}' must be one of: {', '.join(self.choices)}")
        if self.fault is not None and (fault := self.fault(value)):
            raise InvalidOption(f"option '{self.key}' = '{text}' is refused: {fault}")
        return value  # type: ignore[no-any-return]


class Options(Mapping[str, str]):
    """Given options as text; the options of a table that another engine made may have other spellings of a key."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._values = dict(given or {})

    def get_typed(self, option: Option[T]) -> T | None:
        """The value of the option, its default if it was not given, None if it has neither."""
        text = next((self._values[name] for name in (option.key, *option.aliases) if name in self._values), None)
        return option.default if text is None else option.parse(text)

    def need(self, option: Option[T]) -> T:
        """Like ``get_typed``, but raises InvalidOption if the option has neither value nor default."""
        value = self.get_typed(option)
        if value is None:
            raise InvalidOption(f"option '{option.key}' is required: {option.doc}")
        return value

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {key: HIDDEN if looks_secret(key) else value for key, value in self._values.items()}
        return f"Options({shown!r})"

    def merged(self, *others: Mapping[str, str]) -> Options:
        """A new bag with later values winning."""
        out = dict(self._values)
        for other in others:
            out.update(other)
        return Options(out)


def options_in(module: Mapping[str, Any]) -> tuple[Option[Any], ...]:
    """The options among the names of a module (``globals()``), in the order of its file."""
    return tuple(value for value in module.values() if isinstance(value, Option))


class Declared:
    """A set of declared options: canonical names for aliases, and errors for unknown keys.

    ``prefixes`` are other spellings of the begin of a key, such as ``kafka.`` of ``properties.``.
    """

    def __init__(
        self,
        options: Iterable[Option[Any]],
        free_prefixes: Iterable[str] = (),
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.options = tuple(options)
        self.free_prefixes = tuple(free_prefixes)
        self.prefixes = dict(prefixes or {})
        self._by_name = {name: o for o in self.options for name in (o.key, *o.aliases)}

    def knows(self, key: str) -> bool:
        """True if a key (or another spelling of it, or its prefix) is declared here."""
        return self._declared(key) is not None or self._prefixed(key).startswith(self.free_prefixes)

    def canonical_key(self, key: str) -> str:
        """The canonical key of an option by any of its names; an unknown key is answered as it is."""
        option = self._declared(key)
        if option is not None:
            return option.key
        prefixed = self._prefixed(key)
        return prefixed if prefixed.startswith(self.free_prefixes) else key

    def _declared(self, key: str) -> Option[Any] | None:
        """The option of a key, by any of its names."""
        for name in (key, self._prefixed(key)):
            if option := self._by_name.get(name) or self._by_name.get(name.lower()):
                return option
        return None

    def _prefixed(self, key: str) -> str:
        """The key with the canonical spelling of its begin, as far as it is not declared as it is."""
        changed = True
        while changed and key not in self._by_name:
            changed = False
            for other, own in self.prefixes.items():
                if key.startswith(other) and len(key) > len(other):
                    key, changed = own + key.removeprefix(other), True
                    break
        return key

    def canonical(self, options: Mapping[str, str], scope: str | None = None) -> dict[str, str]:
        """Checks every key and value and returns canonical keys.

        Keys with a free prefix (``properties.`` for a log client, ``fields.`` of Paimon) pass as they
        are. Raises InvalidOption for an unknown key (with the nearest known one), a bad value, or an
        option that cannot be given in this scope.
        """
        out: dict[str, str] = {}
        for key, text in options.items():
            option = self._declared(key)
            if option is None and (free := self._prefixed(key)).startswith(self.free_prefixes):
                out[free] = str(text)
                continue
            if option is None:
                hint = did_you_mean(self._prefixed(key), self._by_name)
                near = closest_name(self._prefixed(key), self._by_name)
                secret = looks_secret(key) or (near is not None and self._by_name[near].secret)
                shown = "" if secret else f" = '{text}'"
                raise InvalidOption(f"unknown option '{key}'{shown}{hint}")
            if scope is not None and scope not in option.scope:
                raise InvalidOption(f"option '{key}' cannot be set here; it belongs to: {', '.join(option.scope)}")
            option.parse(str(text))
            out[option.key] = option.canonical_text(str(text))
        return out

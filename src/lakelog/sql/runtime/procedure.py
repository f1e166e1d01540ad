"""A procedure of CALL: its name, its arguments, and its action on a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from inspect import Signature
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidRequest, did_you_mean
from lakelog.io import clock
from lakelog.options.option import Declared, Option, parse_duration
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable

Value = str | int | bool | None


def text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError("write a text in quotes")
    return value


def number(value: Value) -> int:
    """An integer argument, which may be quoted."""
    if value is None or isinstance(value, bool):
        raise ValueError("write a whole number")
    return int(value)


def flag(value: Value) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return str(value).lower() == "true"


def duration(value: Value) -> timedelta:
    """An argument such as ``'30 d'``."""
    return parse_duration(text(value))


def age(value: Value, zone: tzinfo | None = None) -> timedelta:
    """An age: a duration, or a time ``'2024-01-31 12:00:00'`` of the session's zone (None: this machine's)."""
    try:
        return parse_duration(text(value))
    except ValueError:
        past = datetime.fromisoformat(text(value))
        past = past if past.tzinfo else past.replace(tzinfo=zone)
        return timedelta(milliseconds=max(0.0, clock.now_ms() - past.timestamp() * 1000))


def partition_specs(value: Value) -> list[dict[str, str]]:
    """Partitions as text, like ``day=2024-01-31,hour=1;day=2024-02-01``. Raises ValueError."""
    specs = [dict(_pair(part) for part in spec.split(",")) for spec in text(value).split(";") if spec.strip()]
    if not specs:
        raise ValueError("write partitions like 'day=2024-01-31,hour=1;day=2024-02-01'")
    return specs


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name.strip():
        raise ValueError("write partitions like 'day=2024-01-31,hour=1;day=2024-02-01'")
    return name.strip(), _unquoted(value.strip())


def _unquoted(value: str) -> str:
    """A value without quotes around it."""
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def options_among(known: Iterable[Option[Any]]) -> Callable[[Value], dict[str, str]]:
    """Reads options of the table for one call, like ``'a=1, b=2'``; raises InvalidOption for any other option."""
    declared = Declared(known)

    def read(argument: Value) -> dict[str, str]:
        pairs = [part.partition("=") for part in text(argument).split(",") if part.strip()]
        if not all(equals and key.strip() for key, equals, _ in pairs):
            raise ValueError("write options like 'key=value, other.key=value'")
        return declared.canonical({key.strip(): value.strip() for key, _, value in pairs})

    return read


def ignored(value: Value) -> None:
    """An argument of Apache Paimon's procedure that changes nothing here."""


@dataclass(frozen=True)
class Parameter:
    """One argument; ``read`` converts the literal to its value and raises ValueError."""

    name: str
    read: Callable[[Value], Any]
    required: bool = False


@dataclass(frozen=True)
class Procedure:
    """A procedure over one table, which is always its first argument.

    ``run`` gets the table and the passed arguments by name, and returns the result, if it has one. With ``uses_engine``
    it also gets ``engine``, which executes the work; with ``alters`` it also gets ``alter``, which changes the table's
    schema. The argument ``options`` gives the table options for the call.
    """

    name: str
    parameters: tuple[Parameter, ...]
    run: Callable[..., pa.Table | None]
    uses_engine: bool = False
    alters: bool = False

    def call(
        self,
        table: DynamicTable,
        positional: Sequence[Value],
        named: Mapping[str, Value],
        engine: Engine,
        alter: Callable[[Sequence[SchemaChange]], object] | None = None,
    ) -> pa.Table:
        """Checks the arguments and runs.

        Raises InvalidRequest for an unknown, missing, duplicate or invalid one, UnsupportedFeature for a system table.
        """
        table.check_writable()
        if len(positional) > len(self.parameters):
            raise InvalidRequest(f"{self.usage} takes at most {len(self.parameters) + 1} arguments")
        arguments = dict(zip((p.name for p in self.parameters), positional, strict=False))
        for name, value in named.items():
            if name in arguments:
                raise InvalidRequest(f"argument '{name}' of {self.usage} is given twice")
            arguments[name] = value
        known = {p.name: p for p in self.parameters}
        for name in arguments:
            if name not in known:
                hint = did_you_mean(name, known, ".")
                raise InvalidRequest(f"unknown argument '{name}'{hint} Write {self.usage}")
        missing = [p.name for p in self.parameters if p.required and arguments.get(p.name) is None]
        if missing:
            raise InvalidRequest(f"argument '{missing[0]}' is missing: write {self.usage}")
        read = {n: self._read(known[n], v, engine) for n, v in arguments.items() if v is not None}
        table = table.with_hints(read.pop("options", {}))
        read = {n: v for n, v in read.items() if known[n].read is not ignored}
        more = ({"engine": engine} if self.uses_engine else {}) | ({"alter": alter} if self.alters else {})
        result = self.run(table, **more, **read)
        return done_result() if result is None else result

    @property
    def usage(self) -> str:
        """The syntax of the call."""
        names = ", ".join(p.name if p.required else f"[{p.name}]" for p in self.parameters)
        return f"CALL sys.{self.name}(table{', ' if names else ''}{names})"

    def _read(self, parameter: Parameter, value: Value, engine: Engine) -> Any:
        try:
            return age(value, engine.zone) if parameter.read is age else parameter.read(value)
        except ValueError as why:
            raise InvalidRequest(f"argument '{parameter.name}' = {value!r} of sys.{self.name}: {why}") from None


def call_text(procedure: str, arguments: Iterable[tuple[str, str]]) -> str:
    """The CALL statement of a procedure; every value is a text, which the argument's type converts."""
    escaped = ((name, value.replace("\\", "\\\\").replace("'", "\\'")) for name, value in arguments)
    parts = [f"{name} => '{value}'" for name, value in escaped]
    return f"CALL sys.{procedure}({', '.join(parts)})"


def procedure(**readers: Callable[[Value], Any]) -> Callable[[Callable[..., pa.Table | None]], Procedure]:
    """Makes a procedure of a function. An argument without a default is required."""

    def made_of(run: Callable[..., pa.Table | None]) -> Procedure:
        defaults = {name: argument.default for name, argument in inspect.signature(run).parameters.items()}
        parameters = (Parameter(name, read, defaults.get(name) is Signature.empty) for name, read in readers.items())
        return Procedure(run.__name__, tuple(parameters), run, "engine" in defaults, "alter" in defaults)

    return made_of

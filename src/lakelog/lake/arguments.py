"""Checks the arguments of public methods, so that a value of a wrong Python type is an error that names it."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from lakelog.errors import InvalidRequest
from lakelog.options.boundary import broken_text, fits, parameter_hints, shown_value

_Class = TypeVar("_Class", bound=type)
_NAMES: Final[Mapping[object, str]] = {
    str: "text", int: "a whole number", bool: "True or False", float: "a number", timedelta: "a timedelta",
    type(None): "None", Sequence: "a list", Mapping: "a dictionary",
}  # fmt: skip
"""The types that are checked; arguments that may be of another type are left to their method."""


def with_checked_arguments(cls: _Class) -> _Class:
    """A class decorator: public methods raise InvalidRequest for an argument of a wrong type, before they begin."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        if not name.startswith("_") and isinstance(method, types.FunctionType):
            setattr(cls, name, _checked(cls.__name__, method))
    return cls


def _checked(owner: str, method: types.FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.cache
    def wanted() -> Mapping[str, tuple[object, ...]]:
        """Parameter → its types, for those of which all are checked."""
        types = {name: _alternatives(hint) for name, hint in _hints(method).items()}
        return {name: kinds for name, kinds in types.items() if all(kind in _NAMES for kind in kinds)}

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            values = signature.bind(*args, **named).arguments
        except TypeError as why:
            raise InvalidRequest(f"{owner}.{method.__name__}(): {why}; it is {method.__name__}{signature}") from None
        for value in values.values():
            text = broken_text(value)
            if text is not None:
                raise InvalidRequest(f"{owner}.{method.__name__}(): {text}")
        for name, kinds in wanted().items():
            if name in values and not any(fits(values[name], kind) for kind in kinds):
                value = values[name]
                raise InvalidRequest(
                    f"{owner}.{method.__name__}({name}={shown_value(value)}): it is of type {type(value).__name__}. "
                    f"Pass {' or '.join(_NAMES[kind] for kind in kinds)}"
                )
        return method(*args, **named)

    return call


def _hints(method: types.FunctionType) -> dict[str, Any]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(method).parameters
    return {name: hint for name, hint in parameter_hints(method).items() if parameters[name].kind not in several}


def _alternatives(hint: Any) -> tuple[object, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _alternatives(part))
    return (get_origin(hint) or hint,)

"""The boundary of the public interface: what is raised there is an error of lakelog, with the first cause attached.

Methods of a class that derives from ``Public``, functions with ``guarded``, and the command line pass errors of lakelog
and of the user's own code on. A wrong argument becomes InvalidRequest that names it. Whatever else Python, Arrow or
another library raises was not foreseen, so it becomes InternalError that asks for a report.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import struct
import sysconfig
import types
import typing
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from lakelog.errors import InternalError, InvalidRequest, LakelogError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_UNFORESEEN: Final = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError, RuntimeError,
    SyntaxError, SystemError, TypeError, ValueError, struct.error,
)  # fmt: skip
_LIBRARIES: Final = ("pyarrow", "polars", "numpy", "orjson", "sqlglot", "sqlite3", "zlib", "pyo3_runtime")
"""Packages whose errors are of classes of their own."""
_PASSED: Final = ("pyspark", "py4j", "click")
"""Packages whose errors say what to do, and which callers of Spark expect."""
_TEXT_DEPTH: Final = 4
"""Maximum depth of the lists and dictionaries in which texts are checked."""
_INNER: Final = "_lakelog_boundary"
_DUNDERS: Final = ("__arrow_c_stream__", "__enter__", "__exit__", "__iter__", "__next__")
_OWN: Final = str(Path(__file__).resolve().parents[1])
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})

STATEMENT: Final[ContextVar[int]] = ContextVar("lakelog-statement", default=0)
"""The number of the public call that runs, for the log: 1, 2, … in this process. Calls inside it have the same one."""
_NUMBERS: Final = itertools.count(1)


class Public:
    """A class of the public interface. All of its public methods and properties keep the boundary."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, value in list(vars(cls).items()):
            if name.startswith("_") and name not in _DUNDERS:
                continue
            if isinstance(value, types.FunctionType) and not inspect.iscoroutinefunction(value):
                setattr(cls, name, guarded(value))
            elif isinstance(value, property) and value.fget is not None:
                setattr(cls, name, property(guarded(value.fget), value.fset, value.fdel, value.__doc__))


def guarded(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function within the boundary; if it is a generator, so are its items."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        number = STATEMENT.get()
        statement = number or next(_NUMBERS)
        outer = None if number else STATEMENT.set(statement)
        try:
            result = function(*args, **kwargs)
        except BaseException as why:
            own = own_error(why, function, args, kwargs) if is_judged(why) else why
            try:
                if own is why:
                    raise
                raise own from why
            finally:
                del own  # else this frame and its error keep each other, and the arguments
        finally:
            if outer is not None:
                STATEMENT.reset(outer)
        if isinstance(result, types.GeneratorType):
            items: Any = _items(result, statement, lambda why: own_error(why, function, args, kwargs))
            return items  # type: ignore[no-any-return]
        return result

    return call


def _items(
    items: Generator[Any], statement: int, translate: Callable[[BaseException], BaseException]
) -> Generator[Any]:
    with contextlib.closing(items):
        while True:
            outer = STATEMENT.set(statement)
            try:
                item = next(items)
            except StopIteration:
                return
            except BaseException as why:
                own = translate(why) if is_judged(why) else why
                if own is why:
                    raise
                raise own from why
            finally:
                STATEMENT.reset(outer)
            yield item


def is_judged(why: BaseException) -> bool:
    """True for an error, and for the panic of a library in Rust, which is none of Python's classes of errors."""
    return isinstance(why, Exception) or type(why).__module__.partition(".")[0] in _LIBRARIES


def own_error(
    why: BaseException,
    function: Callable[..., Any] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> BaseException:
    """The error that the user gets: ``why`` itself if it is meant for them, otherwise InvalidRequest or InternalError.

    ``function`` is the public one that raised it, with its arguments.
    """
    package = type(why).__module__.partition(".")[0]
    is_unforeseen = isinstance(why, _UNFORESEEN) or package in _LIBRARIES
    is_inner = isinstance(why, LakelogError) and hasattr(why, _INNER)
    if not is_inner and (isinstance(why, LakelogError) or package in _PASSED or not is_unforeseen or _is_of_user(why)):
        return why
    name = "" if function is None else _name_of(function, args)
    wrong = None if function is None else _wrong_argument(function, args, kwargs or {})
    if wrong is not None:
        return _marked(InvalidRequest(f"{name}(): {wrong}"))
    if is_inner:
        return why
    if isinstance(why, UnicodeEncodeError):
        return _marked(InvalidRequest(f"{name}(): {_not_unicode(why.object)}"))
    text = (str(why).strip().splitlines() or [""])[0]
    return _marked(
        InternalError(
            f"{name + '() failed' if name else 'this failed'} with {type(why).__name__}: {text[:500]}. That is a fault "
            "of lakelog: please report it with this text and what you did"
        )
    )


def _marked(error: LakelogError) -> LakelogError:
    """An error of a public method that another one may have called, whose own arguments say more."""
    setattr(error, _INNER, True)
    return error


def _name_of(function: Callable[..., Any], args: Sequence[Any]) -> str:
    is_method = "." in function.__qualname__.removeprefix("<locals>.") and args
    return f"{type(args[0]).__name__}.{function.__name__}" if is_method else function.__name__


def _is_of_user(why: BaseException) -> bool:
    """True if code of the user that lakelog called (a callback, a generator of rows) raised it."""
    step, has_entered = why.__traceback__, False
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        is_own = file.startswith(_OWN)
        if has_entered and not is_own and Path(file).is_absolute() and not file.startswith(_INSTALLED):
            return True
        has_entered |= is_own
        step = step.tb_next
    return False


def parameter_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's parameters, without those that only type checkers import."""
    hints, known = dict[str, Any](), getattr(inspect.unwrap(function), "__globals__", {})
    for name, hint in function.__annotations__.items():
        if name != "return":
            with contextlib.suppress(NameError, TypeError):
                only = types.SimpleNamespace(__annotations__={name: hint})
                hints |= typing.get_type_hints(only, known)
    return hints


def _wrong_argument(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a call; None if they are as declared, or cannot be judged."""
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as why:
        return str(why)
    hints = parameter_hints(function)
    for name, value in arguments.arguments.items():
        kind = inspect.signature(function).parameters[name].kind
        text = broken_text(value)
        if text is not None:
            return text
        if kind == inspect.Parameter.VAR_KEYWORD or name == "self" or name not in hints:
            continue
        several = value if kind == inspect.Parameter.VAR_POSITIONAL else (value,)
        if not all(fits(one, hints[name]) for one in several):
            shown = shown_value(value)
            hint = function.__annotations__.get(name, hints[name])
            return f"argument '{name}' is {shown} of type {type(value).__name__}, and it takes {hint}"
    return None


def broken_text(value: object, depth: int = _TEXT_DEPTH) -> str | None:
    """What is wrong with a text in an argument that no file could hold; None if all of its texts are Unicode."""
    if isinstance(value, str):
        try:
            value.isascii() or value.encode()
        except UnicodeEncodeError:
            return _not_unicode(value)
    elif isinstance(value, dict | list | tuple) and depth:
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return next((text for part in parts if (text := broken_text(part, depth - 1)) is not None), None)
    return None


def _not_unicode(text: str) -> str:
    at = next((at for at, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), 0)
    return f"the text {text[max(0, at - 40) : at + 40]!r} is not Unicode, because it has half of a character: remove it"


def shown_value(value: object) -> str:
    """The beginning of a value's representation, for the text of an error."""
    try:
        return repr(value)[:100]
    except RecursionError:
        return "a value that is nested too deeply"


def fits(value: Any, hint: Any) -> bool:
    """Returns whether an argument is of the type that its parameter declares, as far as that can be judged."""
    origin = typing.get_origin(hint)
    if hint is Any or isinstance(hint, TypeVar | str):
        return True
    if hint is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is Callable or hint is Callable:
        return callable(value)
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if kind is float:
        return hasattr(value, "__float__")
    if kind is int:  # also one of numpy
        return hasattr(value, "__index__") and not isinstance(value, bool)
    if kind is Sequence:
        kind = Iterable
    if not isinstance(value, int if kind is bool else kind) or (kind is Iterable and isinstance(value, str | bytes)):
        return False
    parts = typing.get_args(hint)
    if parts and isinstance(value, Mapping):
        return all(fits(one, part) for pair in value.items() for one, part in zip(pair, parts, strict=False))
    if parts and origin is not tuple and isinstance(value, list | tuple | set | frozenset):
        return all(fits(one, parts[0]) for one in value)
    return True

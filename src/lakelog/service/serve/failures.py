"""lakelog's errors as those of Flight, whose codes tell a client what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyarrow import flight

from lakelog.errors import (
    CommitConflict,
    InvalidRequest,
    LakelogError,
    NotAllowed,
    NotFound,
    Unavailable,
    UnsupportedFeature,
    UnsupportedStatement,
)
from lakelog.options.boundary import own_error


class _Silent(Exception):
    """An error whose traceback Arrow cannot format, so that it sends the text alone: a client learns no path."""

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]  # nothing sets it
        raise AttributeError("a client gets no traceback")


class Invalid(_Silent, ValueError):
    """INVALID_ARGUMENT: the call has to be changed."""


class Missing(_Silent, KeyError):
    """NOT_FOUND."""

    __str__ = Exception.__str__


class Unsupported(_Silent, NotImplementedError):
    """UNIMPLEMENTED."""


_BY_CODE: Final[tuple[tuple[tuple[type[LakelogError], ...], Callable[[str], Exception]], ...]] = (
    ((NotAllowed,), flight.FlightUnauthorizedError),  # PERMISSION_DENIED
    ((UnsupportedFeature, UnsupportedStatement), Unsupported),
    ((InvalidRequest,), Invalid),
    ((NotFound,), Missing),
    ((Unavailable, CommitConflict), flight.FlightUnavailableError),  # UNAVAILABLE: the call may be repeated
)


def flight_error(failure: BaseException) -> Exception:
    """The error of Flight for an error of a call. Its text begins with the class of lakelog's error.

    Errors of Flight stay as they are. An unforeseen error is INTERNAL, and its text is its class alone.
    """
    if isinstance(failure, Exception) and isinstance(failure, flight.FlightError):
        return failure
    error = own_error(failure)
    text = f"{type(error).__name__}: {error}"
    for kinds, make in _BY_CODE:
        if isinstance(error, kinds):
            return make(text)
    internal: Exception = flight.FlightInternalError(text)
    return internal


@contextmanager
def in_flight() -> Iterator[None]:
    """Context of a call: its errors become those of Flight."""
    try:
        yield
    except Exception as failure:
        raise flight_error(failure) from None
    except KeyboardInterrupt:
        raise flight.FlightCancelledError("the server is being stopped") from None

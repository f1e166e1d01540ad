"""The error of a statement for its user: kind, text, and position in the user's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from lakelog.errors import InternalError, LakelogError, NotAllowed
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.sql.runtime.spark_errors import lakelog_error_in_text
from lakelog.sql.syntax.masking import without_secrets
from lakelog.sql.syntax.source_text import SourceText

_POSITION: Final = re.compile(r"^line (\d+), column (\d+): ")
_SPARK_POSITION: Final = re.compile(r"\(line (\d+), pos(?:ition)? (\d+)\)")
_SPARKS_END: Final = re.compile(r"; line \d+ pos \d+$", re.MULTILINE)
_NEAR: Final = re.compile(r"(?:near|unexpected input|mismatched input|extraneous input) '([^'\n]+)'")
_MOST: Final = 4_000


@dataclass(frozen=True)
class Failure(JsonRecord):
    """An error: ``kind`` is its class, or Spark's condition.

    ``line`` and ``column`` count from 1, in the whole text. ``refused`` means a missing privilege, ``retriable`` that
    the same text may succeed later.
    """

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    refused: bool = False
    retriable: bool = False


def failure_of(error: BaseException, source: SourceText | None = None) -> Failure:
    """The report of an error; ``source`` is the statement that raised it."""
    cause = lakelog_error_in_text(error) if isinstance(error, Exception) else error
    if isinstance(cause, LakelogError):
        return _own_failure(cause, source)
    condition = getattr(cause, "getCondition", lambda: None)()
    text = _sparks_text(cause)
    kind = condition or type(cause).__name__
    offset = None if source is None else _offset(cause, text, source)
    if source is None or offset is None:
        return Failure(kind, text)
    line, column = line_and_column(source.script, offset)
    return Failure(kind, _SPARKS_END.sub("", _SPARK_POSITION.sub("", text)).strip(), line, column)


def line_and_column(script: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    start = script.rfind("\n", 0, offset) + 1
    return script.count("\n", 0, offset) + 1, offset - start + 1


def _own_failure(error: LakelogError, source: SourceText | None) -> Failure:
    text = str(error)[:_MOST]
    match = _POSITION.match(text)
    if match is not None:
        line, column = int(match[1]), int(match[2])
        text = text[match.end() :]
    elif source is not None and not isinstance(error, InternalError):
        line, column = line_and_column(source.script, _named_at(text, source))
    else:
        return Failure(type(error).__name__, text, retriable=error.retriable)
    return Failure(type(error).__name__, text, line, column, isinstance(error, NotAllowed), error.retriable)


def _named_at(text: str, source: SourceText) -> int:
    """The position of the first quoted name of the error in the statement; by default the statement's start."""
    for name in re.findall(r"'([^'\n]{2,80})'", text):
        match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", source.text, re.IGNORECASE)
        if match is not None:
            return source.start + match.start()
    return source.start


def _sparks_text(error: BaseException) -> str:
    """Spark's message without the plan and the stack."""
    text = str(error).strip() or type(error).__name__
    text = re.split(r"\n(?:== SQL|JVM stacktrace|\s+at \w|Driver stacktrace)", text)[0]
    text = re.split(r";\n'", text)[0]
    return without_secrets(re.sub(r"lakelog_[0-9a-f]+_\d+", "(table)", text))[:_MOST].strip()


def _offset(error: BaseException, text: str, source: SourceText) -> int | None:
    """The position in the user's text, found by Spark's words, because Spark saw other table names."""
    for context in _contexts(error):
        at = _nth(source.text, context.fragment())
        if at is not None:
            return source.start + at
    near = _NEAR.search(str(error))
    if near is not None:
        at = _nth(source.text, near[1])
        if at is not None:
            return source.start + at
    if _SPARK_POSITION.search(str(error)) is not None:
        return source.start
    return _named_at(text.replace("`", "'"), source)


def _contexts(error: BaseException) -> list[Any]:
    ask = getattr(error, "getQueryContext", None)
    if ask is None:
        return []
    try:
        return [context for context in ask() if context.contextType().name == "SQL"]
    except Exception:  # the JVM has ended
        return []


def _nth(text: str, fragment: str) -> int | None:
    at = text.find(fragment) if fragment else -1
    if at < 0:
        at = text.lower().find(fragment.lower()) if fragment else -1
    return None if at < 0 else at

"""Renders a page from a view, with figures as people write them."""

from __future__ import annotations

import dataclasses
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lakelog.io.clock import now_ms
from lakelog.io.quantities import format_bytes, format_duration
from lakelog.options.names import visible
from lakelog.service.access.identity import Identity

NOTHING: Final = "–"


def count(value: float | None) -> str:
    """``1,234,567``."""
    return NOTHING if value is None else f"{value:,.0f}"


def size(value: int | None) -> str:
    """Bytes as ``1.2 MB``."""
    return NOTHING if value is None else format_bytes(value)


def duration(ms: float | None) -> str:
    """``850 ms``, ``3.2 s``, ``5 min``, ``2 d``."""
    return NOTHING if ms is None else format_duration(ms)


def ago(time_ms: float | None) -> str:
    """The age of a time, ``now`` within a second."""
    if time_ms is None:
        return "never"
    past = now_ms() - time_ms
    return "now" if past < 1_000 else f"{duration(past)} ago"


def instant(time_ms: float | None) -> str:
    """``2024-01-31 12:00:00 UTC``."""
    if time_ms is None:
        return NOTHING
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(value: Any) -> Any:
    """A time of a grid, to the millisecond: ``2024-01-31 12:00:00.000 UTC``, or without zone if it has none."""
    if not isinstance(value, str | datetime):
        return value
    text = value.isoformat() if isinstance(value, datetime) else value
    day, _, rest = text.partition("T")
    clock, is_utc = rest.removesuffix("Z").removesuffix("+00:00"), rest.endswith(("Z", "+00:00"))
    seconds, _, fraction = clock.partition(".")
    return f"{day} {seconds}.{(fraction + '000')[:3]}" + (" UTC" if is_utc else "") if rest else text


_ROOT: Final = Path(__file__).parent
STATIC: Final = _ROOT / "static"


@dataclasses.dataclass(frozen=True)
class Equivalents:
    """Equivalents of a view: its JSON address and its command."""

    json: str
    command: tuple[str, ...] = ()

    @property
    def shell(self) -> str:
        return shlex.join(self.command)


_MENU: Final = (
    ("/", "Overview"), ("/catalogs", "Catalogs"), ("/log", "Log"), ("/views", "Views"), ("/terminal", "Terminal"),
    ("/optimizing", "Optimizing"), ("/settings", "Settings"),
)  # fmt: skip


def _environment() -> Environment:
    loader = FileSystemLoader(_ROOT / "templates")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    for filter_ in (count, size, duration, ago, instant, moment):
        environment.filters[filter_.__name__] = filter_
    return environment


def _visible(value: Any) -> Any:
    """A text of users with characters that would change the order of others, such as U+202E, as escapes."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_TEMPLATES: Final = Jinja2Templates(env=_environment())


def render(
    request: Request, template: str, title: str, view: Any = None, same: Equivalents | None = None, status: int = 200
) -> HTMLResponse:
    """The page of a template, or only its changing part for a request of htmx."""
    identity: Identity | None = request.scope["state"].get("identity")
    session = identity.session if identity else None
    here = request.url.path
    context = {
        "title": title,
        "view": view,
        "same": same,
        "identity": identity,
        "csrf": session.csrf if session else "",
        "menu": _MENU,
        "here": here,
        "is_part": "hx-request" in request.headers,
    }
    return _TEMPLATES.TemplateResponse(request, template, context, status_code=status)

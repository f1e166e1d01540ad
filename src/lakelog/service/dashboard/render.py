"""Renders a page from a view."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lakelog.options.names import visible
from lakelog.service.dashboard import formatting as words
from lakelog.service.dashboard.security.identity.identity import Identity

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
    ("/", "Overview"),
    ("/catalogs", "Catalogs"),
    ("/log", "Log"),
    ("/terminal", "Terminal"),
    ("/optimizing", "Optimizing"),
    ("/settings", "Settings"),
)


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
    for filter_ in (words.count, words.size, words.duration, words.ago, words.instant):
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

"""lakelog's errors as answers: what the caller does next decides the status."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidRequest,
    LakelogError,
    NotFound,
    NotInstalled,
    Unavailable,
)
from lakelog.service.dashboard.render import render

_LOG: Final = logging.getLogger("lakelog.dashboard")
_STATUS: Final = (
    (NotFound, 404),
    (InvalidRequest, 400),
    (AlreadyExists, 409),
    (CommitConflict, 409),
    (Unavailable, 503),
    (NotInstalled, 501),
)


def answer_lakelog_error(request: Request, failure: Exception) -> Response:
    """An error of lakelog, in its own words."""
    assert isinstance(failure, LakelogError)
    status = next((code for kind, code in _STATUS if isinstance(failure, kind)), 500)
    return told(request, status, str(failure))


def answer_http_error(request: Request, failure: Exception) -> Response:
    """No such route, not allowed, a method that is not there."""
    assert isinstance(failure, HTTPException)
    return told(request, failure.status_code, str(failure.detail))


def answer_wrong_request(request: Request, failure: Exception) -> Response:
    """A parameter or a body that is not what the route takes."""
    assert isinstance(failure, RequestValidationError)
    wrong = (f"'{'.'.join(map(str, one['loc'][1:]))}': {one['msg'].lower()}" for one in failure.errors())
    return told(request, 400, f"the request has a wrong value of {'; '.join(wrong)}")


def answer_other_error(request: Request, failure: Exception) -> Response:
    """A fault of ours: the log has it, the answer says only that."""
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=failure)
    return told(request, 500, "this failed inside the dashboard; its log has the reason")


def told(request: Request, status: int, why: str) -> Response:
    """One sentence, as a page for people and as JSON for programs."""
    is_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if is_page and "hx-request" not in request.headers:
        return render(request, "failure.html", f"{status}", {"status": status, "why": why}, status=status)
    return JSONResponse({"error": why}, status)

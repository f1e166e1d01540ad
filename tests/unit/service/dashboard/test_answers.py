"""What the server answers to odd requests: a page for a browser, one form of error for a program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dashboards import RunningDashboard, running_dashboard
from lakelog import connect

WRONG = ["/tables/db.t/snapshots?before=abc", "/tables/db.t/rows?first_column=abc", "/tables/db.missing/rows"]


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    place = tmp_path_factory.mktemp("answers")
    connect(warehouse=str(place)).sql("create table db.t (id int)")
    with running_dashboard(place) as found:
        yield found


def test_a_head_request_is_answered_like_a_get_without_its_body(dashboard: RunningDashboard) -> None:
    with dashboard.client(accept="text/html") as client:
        for path in ("/", "/healthz"):
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (200, b""), path


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_request_is_a_page_for_a_browser_and_an_error_for_a_program(
    dashboard: RunningDashboard, path: str
) -> None:
    with dashboard.client(accept="text/html") as browser:
        answer = browser.get(path)
        assert 400 <= answer.status_code < 500
        assert answer.headers["content-type"].startswith("text/html")
        assert "<h1" in answer.text
    with dashboard.client(accept="application/json") as program:
        answer = program.get(f"/api/v1{path}")
        assert 400 <= answer.status_code < 500
        assert list(answer.json()) == ["error"]

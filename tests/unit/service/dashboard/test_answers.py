"""What the server answers to odd requests: a page for a browser, one form of error for a program."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dashboards import RunningDashboard, running_dashboard
from lakelog import connect
from lakelog.cli.main import lakelog

WRONG = ["/tables/db.t/snapshots?before=abc", "/tables/db.t/rows?first_column=abc", "/tables/db.missing/rows"]


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    place = tmp_path_factory.mktemp("answers")
    connect(warehouse=str(place)).sql("create table db.t (id int)")
    with running_dashboard(place) as found:
        yield found


def test_what_the_dashboard_keeps_is_for_its_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "_state"
    state.mkdir(0o755)
    with running_dashboard(tmp_path) as dashboard, dashboard.client() as client:
        client.get("/api/v1/tables")
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in state.iterdir() if file.is_file()}
    assert found["figures.sqlite"] == 0o600
    assert set(found.values()) == {0o600}


def test_the_help_of_the_dashboard_promises_no_code_to_admins() -> None:
    told = CliRunner().invoke(lakelog, ["dashboard", "--help"]).output
    assert "--allow-local-files" in told
    assert "load code" not in " ".join(told.split())


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

"""Who gets in, and who does not; each attack of the list, on a real socket."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards import PASSWORD, TOKEN, RunningDashboard, csrf_of, running_dashboard
from lakelog.errors import InvalidRequest, NotFound
from lakelog.service.access import local_user
from lakelog.service.access.users import Users
from lakelog.service.dashboard.security.middleware import timeouts
from lakelog.service.dashboard.security.middleware.limits import Limits
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.sql.runtime.statement import Privilege


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, users_file: Path) -> Iterator[RunningDashboard]:
    with running_dashboard(tmp_path_factory.mktemp("guarded"), users_file=users_file, token=TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    with running_dashboard(tmp_path_factory.mktemp("local")) as found:
        yield found


def still_serves(dashboard: RunningDashboard) -> bool:
    with dashboard.client() as client:
        return client.get("/healthz").status_code == 200


def test_the_user_of_this_machine_needs_no_login(local: RunningDashboard) -> None:
    with local.client() as client:
        assert client.get("/api/v1/tables").status_code == 200
        assert client.get("/api/v1/settings").json()["login"].startswith("none")


def test_another_user_of_this_machine_does(local: RunningDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(local_user.os, "geteuid", lambda: owner + 1)  # whose this server would be
    with local.client() as client:
        assert client.get("/api/v1/tables").status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("way", ["asked", "listed"])
def test_a_connection_that_its_client_has_closed_is_of_no_user(host: str, way: str, monkeypatch: Any) -> None:
    if way == "listed":
        monkeypatch.setattr(local_user, "_SOCK_DIAG", 99)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server, address = listener.accept()
        ends = address[:2], listener.getsockname()[:2]
        with server:
            assert local_user.is_same_user(*ends)
            client.close()  # the kernel says that it is root's now
            assert not local_user.is_same_user(*ends)


@pytest.mark.parametrize("path", ["/", "/tables/db.t", "/terminal", "/api/v1/tables", "/api/v1/nothing", "/nothing"])
def test_no_page_is_shown_without_a_login(guarded: RunningDashboard, path: str) -> None:
    with guarded.client() as program:
        assert program.get(path).status_code == 401
    with guarded.browser() as browser:
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["location"][:12]) == (303, "/login?next=")


def test_a_wrong_token_is_refused(guarded: RunningDashboard) -> None:
    with guarded.client(authorization=f"Bearer {TOKEN}x") as program:
        assert program.get("/api/v1/tables").status_code == 401
    with guarded.program() as program:
        assert program.get("/api/v1/tables").status_code == 200


def test_roles_are_held(guarded: RunningDashboard) -> None:
    with guarded.log_in("rita", PASSWORD) as rita, guarded.log_in("ada", PASSWORD) as ada:
        csrf = csrf_of(rita.get("/"))
        refused = rita.delete("/api/v1/sessions/x", headers={"x-csrf-token": csrf})
        assert refused.status_code == 403
        assert "needs the role 'admin'; rita has 'read'" in refused.json()["error"]
        assert rita.get("/api/v1/settings").json()["sessions"] == []
        assert {line["user"] for line in ada.get("/api/v1/settings").json()["sessions"]} >= {"rita", "ada"}


def test_logging_out_ends_the_session_on_the_server(guarded: RunningDashboard) -> None:
    with guarded.log_in("rita", PASSWORD) as rita:
        cookie = dict(rita.cookies)
        rita.post("/logout", headers={"x-csrf-token": csrf_of(rita.get("/"))})
        with guarded.client(cookie="; ".join(f"{k}={v}" for k, v in cookie.items())) as kept:
            assert kept.get("/api/v1/tables").status_code == 401


def test_an_admin_ends_the_session_of_another(guarded: RunningDashboard) -> None:
    with guarded.log_in("wanda", PASSWORD) as wanda, guarded.log_in("ada", PASSWORD) as ada:
        assert wanda.get("/api/v1/tables").status_code == 200
        sessions = ada.get("/api/v1/settings").json()["sessions"]
        key = next(line["key"] for line in sessions if line["user"] == "wanda")
        ended = ada.delete(f"/api/v1/sessions/{key}", headers={"x-csrf-token": csrf_of(ada.get("/"))})
        assert ended.status_code == 204
        assert wanda.get("/api/v1/tables", headers={"accept": "application/json"}).status_code == 401


def test_a_user_who_was_removed_is_out_at_once(tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.put("rita", Privilege.READ, PASSWORD)
    with (
        running_dashboard(tmp_path / "w", users_file=users.path) as dashboard,
        dashboard.log_in("rita", PASSWORD) as rita,
    ):
        assert rita.get("/api/v1/tables").status_code == 200
        users.put("ada", Privilege.ADMIN, PASSWORD)
        users.remove("rita")
        assert rita.get("/api/v1/tables", headers={"accept": "application/json"}).status_code == 401


def test_the_cookie_is_for_this_server_alone(guarded: RunningDashboard) -> None:
    with guarded.browser() as browser:
        form = {"user": "rita", "password": PASSWORD}
        answer = browser.post("/login", data=form, headers={"origin": guarded.address})
        cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie  # it would not come back without TLS


@pytest.mark.parametrize(
    "there", ["https://elsewhere.test/", "//elsewhere.test/", "/\\elsewhere.test", "javascript:alert(1)"]
)
def test_a_login_leads_nowhere_else(guarded: RunningDashboard, there: str) -> None:
    form = {"user": "rita", "password": PASSWORD, "next": there}
    with guarded.browser() as browser:
        assert browser.post("/login", data=form, headers={"origin": guarded.address}).headers["location"] == "/"


def test_a_change_needs_the_token_of_the_page(guarded: RunningDashboard) -> None:
    with guarded.log_in("ada", PASSWORD) as ada:
        assert ada.delete("/api/v1/sessions/x").status_code == 403
        assert ada.delete("/api/v1/sessions/x", headers={"x-csrf-token": "guessed"}).status_code == 403
        assert ada.delete("/api/v1/sessions/x", headers={"x-csrf-token": csrf_of(ada.get("/"))}).status_code == 404


@pytest.mark.parametrize(
    "host", ["elsewhere.test", "elsewhere.test:1630", "", "127.0.0.1", "127.0.0.1.elsewhere.test:1630"]
)
def test_a_forged_host_is_refused(local: RunningDashboard, host: str) -> None:
    with local.client(host=host) as client:
        assert client.get("/api/v1/tables").status_code in (400, 421)
    assert still_serves(local)


def test_a_forged_origin_is_refused(local: RunningDashboard) -> None:
    with local.client(origin="https://elsewhere.test") as client:
        assert client.get("/api/v1/tables").status_code == 403
        assert client.post("/logout").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_from_another_site_is_refused(local: RunningDashboard, site: str) -> None:
    with local.client(**{"sec-fetch-site": site, "sec-fetch-mode": "cors"}) as client:
        assert client.get("/api/v1/tables").status_code == 403
    with local.client(**{"sec-fetch-site": site, "sec-fetch-mode": "navigate"}) as client:
        assert client.get("/").status_code == 200  # somebody followed a link
        assert client.post("/logout").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/tables/..%2f..%2fetc",
        "/static//etc/passwd",
    ],
)
def test_no_path_leads_out(local: RunningDashboard, path: str) -> None:
    host, port = local.address.removeprefix("http://").split(":")
    with socket.create_connection(
        (host, int(port)), timeout=120
    ) as raw:  # a client of its own, which normalises nothing
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert int(answer.split()[1]) in (400, 404), answer[:200]
    assert b"build_app" not in answer
    assert b"root:" not in answer


def test_a_huge_body_is_refused(local: RunningDashboard) -> None:
    with local.client() as client:
        assert client.post("/logout", content=b"x" * 2_000_000).status_code == 413

        def endless() -> Iterator[bytes]:
            for _ in range(1_000):
                yield b"x" * 10_000

        with suppress(httpx.TransportError):  # the server may hang up before all of it was sent
            assert client.post("/logout", content=endless()).status_code == 413
    assert still_serves(local)


def test_slow_bodies_delay_no_other_request(local: RunningDashboard) -> None:
    host, port = local.address.removeprefix("http://").split(":")
    head = f"POST /logout HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 100\r\n\r\nx"
    with ExitStack() as cleanup:
        for _ in range(300):  # more than are answered at a time
            slow = cleanup.enter_context(socket.create_connection((host, int(port)), timeout=120))
            slow.sendall(head.encode())
        with local.client() as client:
            assert client.get("/api/v1/tables", timeout=120).status_code == 200
        assert select.select([slow], [], [], 0)[0] == [], "the last of them is not given up yet"
    assert still_serves(local)


def test_a_body_that_does_not_end_is_given_up() -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/logout", "headers": [(b"content-length", b"9")]}
    asyncio.run(Limits(never, body_s=0.01)(scope, never, send))
    assert sent[0]["status"] == 408


def test_a_head_that_does_not_end_is_hung_up_on(local: RunningDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "HEAD_S", 0.2)
    host, port = local.address.removeprefix("http://").split(":")
    whole = f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    for before in (b"", whole):
        with socket.create_connection((host, int(port)), timeout=120) as slow:
            slow.sendall(before)
            if before:
                assert slow.recv(65_536).startswith(b"HTTP/1.1 200 ")
            slow.sendall(b"GET / HTTP/1.1\r\nHo")
            while slow.recv(65_536):
                pass
    assert still_serves(local)


@pytest.mark.slow
def test_a_thousand_parallel_requests_are_answered_or_get_retry_after(local: RunningDashboard) -> None:
    def ask(_: int) -> int:
        try:
            with local.client() as client:
                return client.get("/api/v1/tables").status_code
        except httpx.TransportError:
            return 0

    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(ask, range(1_000)))
    assert set(answers) <= {200, 503}, sorted(set(answers))
    assert answers.count(200) > 100
    assert still_serves(local)


def test_every_answer_has_the_security_headers(local: RunningDashboard) -> None:
    with local.client() as client:
        for path in ("/", "/api/v1/tables", "/static/app.js", "/nothing"):
            headers = client.get(path).headers
            assert "default-src 'self'" in headers["content-security-policy"], path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "server" not in headers


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0"}, "users must log in"),
        ({"host": "0.0.0.0", "token": TOKEN}, "unencrypted"),
        ({"host": "::", "users_file": Path("users")}, "unencrypted"),
        ({"behind_proxy": True}, "needs --users-file or --token-file"),
        ({"tls_key": Path("key.pem")}, "--tls-certificate and --tls-key"),
    ],
)
def test_what_is_not_safe_is_not_started(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        DashboardSettings("w", **settings).check()  # type: ignore[arg-type]


def test_the_users_file_is_for_its_owner(tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    with pytest.raises(NotFound, match="lakelog users add"):
        users.read()
    users.put("ada", Privilege.ADMIN, PASSWORD)
    assert users.path.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in users.path.read_text()
    users.path.chmod(0o644)
    with pytest.raises(InvalidRequest, match="chmod 600"):
        users.read()


@pytest.mark.parametrize(
    ("name", "password"), [("a:b", PASSWORD), ("", PASSWORD), ("ada", "short"), ("token", PASSWORD)]
)
def test_bad_users_are_refused(tmp_path: Path, name: str, password: str) -> None:
    with pytest.raises(InvalidRequest):
        Users(tmp_path / "users").put(name, Privilege.READ, password)
    assert not (tmp_path / "users").exists()


def test_the_connection_of_an_unfinished_body_is_closed_after_the_answer(
    local: RunningDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "HEAD_S", 0.2)
    host, port = local.address.removeprefix("http://").split(":")
    head = f"POST /nowhere HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://other\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=120) as slow:
        slow.sendall(head.encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 403")
        slow.sendall(b"x")  # one byte ended the wait for the next request
        while slow.recv(1000):
            pass


def test_a_client_that_does_not_read_its_answer_is_hung_up_on(
    local: RunningDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "UNREAD_S", 0.2, raising=False)
    host, port = local.address.removeprefix("http://").split(":")
    large = f"GET /static/vendor/codemirror.js HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((host, int(port)))
        slow.sendall(large * 40)  # more than the buffers of both ends
        ended = select.poll()
        ended.register(slow, select.POLLRDHUP)
        assert ended.poll(10_000), "40 unread answers keep their connection"
    assert still_serves(local)

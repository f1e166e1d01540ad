"""Logins: how often one may try, whose cookie counts, what ends a session, and what the audit log says of it."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards import PASSWORD, TOKEN, csrf_of, running_dashboard
from lakelog.service.access.throttle import Throttle, limited_address
from lakelog.service.access.users import Users
from lakelog.service.dashboard.security.cookies import Cookies
from lakelog.sql.runtime.statement import Privilege


def test_five_wrong_logins_and_one_has_to_wait(tmp_path: Path, users_file: Path) -> None:
    with running_dashboard(tmp_path, users_file=users_file) as dashboard, dashboard.browser() as browser:
        tries = [browser.post("/login", data={"user": "ada", "password": f"guess {n}"}) for n in range(6)]
        assert [answer.status_code for answer in tries] == [401] * 5 + [429]
        right = browser.post("/login", data={"user": "ada", "password": PASSWORD})
        assert right.status_code == 429
        assert "try again in" in right.text


def test_the_throttle_forgets() -> None:
    throttle = Throttle(0.05)
    assert [throttle.take({"a": 2}) > 0 for _ in range(3)] == [False, False, True]
    assert throttle.take({"b": 2}) == 0
    until = time.monotonic() + 120
    while throttle.take({"a": 2}) > 0:
        assert time.monotonic() < until


def test_parallel_guesses_are_counted_before_a_password_is_hashed(
    tmp_path: Path, users_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashing = Hashing(monkeypatch)

    def guess(number: int) -> int:
        with dashboard.browser() as browser:
            return browser.post("/login", data={"user": "ada", "password": f"guess {number}"}).status_code

    with running_dashboard(tmp_path, users_file=users_file) as dashboard, ThreadPoolExecutor(80) as pool:
        answers = sorted(pool.map(guess, range(80)))
    assert answers == [401] * 5 + [429] * 75
    assert (hashing.tried, hashing.most_at_once) == (5, 1)


def test_a_login_flood_hashes_one_password_at_a_time(
    tmp_path: Path, users_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashing = Hashing(monkeypatch)

    def guess(number: int) -> int:
        with dashboard.browser() as browser:
            return browser.post("/login", data={"user": f"user{number}", "password": "a guess"}).status_code

    with running_dashboard(tmp_path, users_file=users_file) as dashboard, ThreadPoolExecutor(12) as pool:
        assert set(pool.map(guess, range(12))) <= {401, 429, 503}
    assert hashing.most_at_once == 1


class Hashing:
    """Counts the passwords that are checked, and how many at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried = self.most_at_once = self._now = 0
        self._lock, self._check = threading.Lock(), Users.check
        monkeypatch.setattr(Users, "check", lambda users, name, password: self._checked(users, name, password))

    def _checked(self, users: Users, name: str, password: str) -> Any:
        with self._lock:
            self.tried += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            return self._check(users, name, password)
        finally:
            with self._lock:
                self._now -= 1


def test_guesses_at_one_user_lock_out_neither_others_nor_a_known_browser(tmp_path: Path, users_file: Path) -> None:
    def log_in(browser: httpx.Client, user: str, password: str) -> int:
        return browser.post("/login", data={"user": user, "password": password}).status_code

    with (
        running_dashboard(tmp_path, users_file=users_file) as dashboard,
        dashboard.browser() as own,
        dashboard.browser() as guesser,
        dashboard.browser() as colleague,
    ):
        assert log_in(own, "ada", PASSWORD) == 303
        assert [log_in(guesser, "ada", f"guess {n}") for n in range(6)] == [401] * 5 + [429]
        assert log_in(colleague, "rita", PASSWORD) == 303
        assert log_in(own, "ada", PASSWORD) == 303
        assert log_in(guesser, "ada", PASSWORD) == 429


def test_tokens_cannot_be_guessed_without_end(tmp_path: Path) -> None:
    with running_dashboard(tmp_path, token=TOKEN) as dashboard, dashboard.program() as program:
        wrong = [dashboard.client(authorization=f"Bearer guess {n}") for n in range(25)]
        assert [one.get("/api/v1/tables").status_code for one in wrong] == [401] * 20 + [429] * 5
        assert program.get("/api/v1/tables").status_code == 429  # nobody has shown the token from here
    with running_dashboard(tmp_path, token=TOKEN) as dashboard, dashboard.program() as program:
        assert program.get("/api/v1/tables").status_code == 200
        for one in [dashboard.client(authorization=f"Bearer guess {n}") for n in range(25)]:
            assert one.get("/api/v1/tables").status_code == 401
        assert program.get("/api/v1/tables").status_code == 200  # a program at work goes on


@pytest.mark.parametrize(
    ("addresses", "other"),
    [(["10.9.9.9, 10.0.0.1"] * 6, "10.9.9.9, 10.0.0.2"), ([f"2001:db8:0:7::{n}" for n in range(6)], "2001:db8:0:8::1")],
    ids=["addresses", "networks of IPv6"],
)
def test_addresses_behind_a_proxy_are_distinguished(
    tmp_path: Path, users_file: Path, addresses: list[str], other: str
) -> None:
    def guess(address: str) -> int:
        headers = {"x-forwarded-for": address, "origin": dashboard.address.replace("http", "https")}
        with dashboard.browser() as browser:
            return browser.post("/login", data={"user": "ada", "password": "a guess"}, headers=headers).status_code

    with running_dashboard(tmp_path, users_file=users_file, behind_proxy=True) as dashboard:
        dashboard.address = dashboard.address.replace("https", "http")
        assert [guess(address) for address in addresses] == [401] * 5 + [429]
        assert guess(other) == 401


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_the_address_that_attempts_are_counted_under(address: str, counted: str) -> None:
    assert limited_address(address) == counted


def test_the_cookie_of_the_local_user_opens_nothing_for_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_dashboard(tmp_path) as dashboard, dashboard.browser() as browser:
        assert browser.get("/").status_code == 200
        port = dashboard.address.rpartition(":")[2]
        assert list(browser.cookies) == [f"lakelog_session_{port}"]  # a page on another port gets to see it
        assert browser.get("/api/v1/tables").status_code == 200
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        assert browser.get("/api/v1/tables", headers={"accept": "application/json"}).status_code == 401


def test_over_tls_the_cookie_is_for_this_host_alone() -> None:
    header = Cookies(1630, True).begin_session("secret")
    assert header.startswith("__Host-lakelog_session_1630=secret; Path=/; HttpOnly; SameSite=Strict; Secure")


@pytest.mark.parametrize(
    ("role", "password"), [(Privilege.READ, "another battery staple"), (Privilege.WRITE, PASSWORD)]
)
def test_a_new_password_or_role_ends_the_sessions_of_a_user(tmp_path: Path, role: Privilege, password: str) -> None:
    users = Users(tmp_path / "users")
    users.put("rae", Privilege.READ, PASSWORD)
    with (
        running_dashboard(tmp_path / "w", users_file=users.path) as dashboard,
        dashboard.log_in("rae", PASSWORD) as rae,
    ):
        assert rae.get("/api/v1/tables").status_code == 200
        users.put("rae", role, password)
        assert rae.get("/api/v1/tables", headers={"accept": "application/json"}).status_code == 401


def test_logins_refusals_and_ends_of_sessions_are_in_the_audit_log(tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.put("rae", Privilege.READ, PASSWORD)
    with running_dashboard(tmp_path / "w", users_file=users.path, token=TOKEN) as dashboard:
        with dashboard.browser() as browser:
            for n in range(8):
                browser.post("/login", data={"user": "rae", "password": f"guess {n}"})
        with dashboard.log_in("", TOKEN) as admin:
            admin.post("/logout", headers={"x-csrf-token": csrf_of(admin.get("/"))})
        with dashboard.client(authorization="Bearer a guess") as program:
            program.get("/api/v1/tables")
        with dashboard.program() as program:
            lines = program.get("/api/v1/terminal/audit").json()[::-1]
    assert all(line["address"] == "127.0.0.1" for line in lines if "ended" not in line["text"])
    seen = [(line["user"], line["text"].split(" ")[0], line["outcome"], line["error"]) for line in lines]
    assert seen == [
        *[("rae", "login", "refused", "WrongPassword")] * 5,
        ("rae", "login", "refused", "TooManyAttempts"),
        ("token", "login", "done", None),
        ("token", "session", "done", None),
        ("token", "token", "refused", "WrongToken"),
    ]
    assert not any("guess" in str(line) or PASSWORD in str(line) for line in lines)


def test_another_loopback_address_answers_to_its_name(tmp_path: Path) -> None:
    with running_dashboard(tmp_path, host="127.0.0.2") as dashboard, dashboard.client() as client:
        assert "127.0.0.2" in dashboard.address
        assert client.get("/api/v1/tables").status_code == 200
